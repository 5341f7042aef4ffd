# Threads as rows, spans as boxes, memory below. Colours also differ in lightness, and names stand in the boxes.
array tone[12] = ['#56B4E9', '#F0E442', '#E69F00', '#CC79A7', '#4DC3A0', '#F08A50', '#BBBBBB', '#FFFFFF', '#8FB4D9', '#D8C690', '#E6B3C8', '#B9D98C']
set multiplot
set label 1 title noenhanced at screen 0.5, 1 - 18 / height center font ',14'
set lmargin at screen 0.145
set rmargin at screen 0.145 + 0.8363
bottom = counters > 0 ? 214 / height : 92 / height
set tmargin at screen 1 - 40 / height
set bmargin at screen bottom
set xrange [0:span]
set yrange [rows - 0.4:-0.6]
set ytics nomirror scale 0
set grid x ls 100
set border 1
set key at screen 0.55, 24 / height center center horizontal samplen 1.5 spacing 1.1 maxrows 2
if (counters > 0) { set format x ''; } else { set xlabel start > 0 ? sprintf('time from %.6g ms on (ms)', start) : 'time (ms)' }
height_of(d) = 0.36 - 0.1 * d
draw = "plot -1 notitle lw 0"
do for [i=1:categories] {
    if (boxes[i] > 0) {
        draw = draw.sprintf(", $boxes index %d using (($2+$3)/2):1:(($3-$2)/2):(height_of($4)) with boxxyerror fs solid border lc rgb '#333333' lw 0.4 lc rgb tone[%d] title category[%d]", i - 1, i, i)
    }
}
if (labels) { draw = draw.", $labels using 2:1:3 with labels font ',9' notitle" }
eval draw
if (counters > 0) {
    unset label 1
    set tmargin at screen 1 - (1 - bottom) - 14 / height
    set bmargin at screen 92 / height
    set yrange [0:*]
    set ytics autofreq nomirror scale 1
    set border 3
    set grid x y ls 100
    set ylabel 'memory (GB)'
    set format x
    set xlabel start > 0 ? sprintf('time from %.6g ms on (ms)', start) : 'time (ms)'
    set key inside top right
    if (counters == 1) { set key off }
    plot for [i=1:counters] $counters index i-1 using 1:2 with steps lw 1.5 dt i lc rgb '#0072B2' title counter[i]
}
unset multiplot
