# Threads as rows, spans as boxes, memory below. The boxes' tones are light: names stand in them.
array tone[16] = ['#56B4E9', '#F0E442', '#CC79A7', '#C07A00', '#BFE8D8', '#D8602A', '#666666', '#FFFFFF', '#8FB4D9', '#C8A860', '#E6B3C8', '#B9D98C', '#E3E3FA', '#E0D0FF', '#FFD8B0', '#D0F0F0']
array layer[12] = ['#0072B2', '#D55E00', '#4DC3A0', '#BBBBBB', '#F0E442', '#E69F00', '#CC79A7', '#56B4E9', '#777777', '#8C6D1F', '#B9D98C', '#000000']
# Textures of memory: 3 is solid. Neighbours in the stack differ in black and white, too.
array texture[12] = [3, 4, 3, 3, 3, 3, 5, 3, 3, 4, 3, 3]
set multiplot
set label 1 title noenhanced at screen 0.5, 1 - 18 / height center font ',14'
set lmargin at screen 0.145
set rmargin at screen 0.145 + 0.8363
set tmargin at screen 1 - rows_top / height
set bmargin at screen 1 - rows_bottom / height
set xrange [0:span]
set yrange [rows - 0.4:-0.6]
set ytics nomirror scale 0
set grid x ls 100
set border 1
when = start > 0 ? sprintf('time from %.6g ms on (ms)', start) : 'time (ms)'
if (curves > 0) { set format x ''; } else { set xlabel when }
set key at screen 0.56, 1 - key_at / height center center vertical maxrows key_lines samplen 1.5 spacing 1.15
if (curves > 1) {
    set label 2 'boxes' at screen 0.02, 1 - key_at / height left
    set label 3 'memory' at screen 0.02, 1 - memory_key_at / height left
}
height_of(d) = 0.36 - 0.1 * d
draw = "plot for [i=1:categories] $boxes index i-1 using (($2+$3)/2):1:(($3-$2)/2):(height_of($4)) with boxxyerror fs solid border lc rgb '#444444' lw 0.3 lc rgb tone[tone_of[i]] title category[i]"
if (labels) { draw = draw.", $labels using 2:1:3 with labels font ',9' notitle" }
eval draw
if (curves > 0) {
    unset label
    unset arrow
    set tmargin at screen 1 - memory_top / height
    set bmargin at screen 1 - memory_bottom / height
    set yrange [0:*]
    set ytics autofreq nomirror scale 1
    set border 3
    set grid x y front ls 100
    set ylabel 'memory (GB)'
    set format x
    set xlabel when
    set style fill solid noborder
    if (curves == 1) { set key off } else { set key at screen 0.56, 1 - memory_key_at / height center center vertical maxrows memory_key_lines samplen 1.5 spacing 1.15 }
    if (stacked) {
        draw = "plot -1 with lines notitle"
        do for [i=curves:1:-1] { # hatching lets through what lies below
            draw = draw.sprintf(", $memory index %d using 1:2 with filledcurves y1=0 fs solid noborder lc rgb '#ffffff' notitle", i-1)
            draw = draw.sprintf(", $memory index %d using 1:2 with filledcurves y1=0 fs pattern %d noborder lc rgb '%s' notitle", i-1, texture[i], layer[i])
        }
        draw = draw.", for [i=1:curves] $memory index i-1 using 1:2 with lines lw 0.5 lc rgb '#333333' notitle"
        draw = draw.", for [i=1:curves] 1/0 with boxes fs pattern texture[i] border lc rgb '#333333' lw 0.4 lc rgb layer[i] title curve[i]"
    } else {
        draw = "plot for [i=1:curves] $memory index i-1 using 1:2 with lines lw 1.8 dt i lc rgb layer[i] title curve[i]"
    }
    eval draw
}
unset multiplot
