# MFU over GPUs: a panel for each model. Lines are predictions, filled points are measured runs of the same strategy.
set multiplot
left = 74.0 / width
gap = 22.0 / width
wide = (1 - 16.0 / width - left - gap * (panels - 1)) / panels
set label 1 title noenhanced at screen 0.5, 0.965 center font ',14'
set tmargin at screen 0.86
set bmargin at screen 0.285
set logscale x 2
set xrange [least / 1.3:most * 1.3]
set yrange [0:highest]
set grid ls 100
set xlabel 'GPUs' offset 0,0.4
set ylabel 'model FLOPs utilisation (MFU)'
set format y '%.1f'
set ytics 0.1
if (rotated) { set xtics rotate by -40 offset -0.6,0 font ',10' } else { set xtics font ',11' }
set key off
do for [p=1:panels] {
    set lmargin at screen left + (p - 1) * (wide + gap)
    set rmargin at screen left + (p - 1) * (wide + gap) + wide
    set title panel[p] noenhanced offset 0,-0.3
    if (p == 2) { unset label 1; set format y ''; unset ylabel }
    if (p == panels) { set key at screen 0.5, 0.08 center center vertical maxrows 2 samplen 4 spacing 1.25 width 1 }
    draw = "plot -1 notitle lw 0"
    if (line_last[p] >= line_first[p]) {
        draw = draw.", for [i=line_first[p]:line_last[p]] $lines index i-1 using 1:2 with linespoints ls line_style[i] ps 0.7 notitle"
        if (banded) { draw = draw.", for [i=line_first[p]:line_last[p]] $lines index i-1 using 1:($2-$3):(0):(2*$3) with vectors nohead lw 1 lc rgb colour[line_style[i]] notitle" }
    }
    if (run_last[p] >= run_first[p]) {
        # Filled, then outlined, one after the other: marks that lie on one another stay apart in black and white.
        do for [i=run_first[p]:run_last[p]] {
            draw = draw.sprintf(", $runs index %d using 1:2 with points pt %d ps 1.1 lc rgb '%s' notitle", i-1, filled[run_style[i]], colour[run_style[i]])
            draw = draw.sprintf(", $runs index %d using 1:2 with points pt %d ps 1.1 lw 1.2 lc rgb '#000000' notitle", i-1, outline[run_style[i]])
        }
    }
    if (p == panels) {
        draw = draw.", for [k=1:keys] 1/0 with linespoints ls key_style[k] ps 0.7 title key[k]"
        if (runs) { draw = draw.", 1/0 with points pt 7 ps 1.1 lc rgb '#777777' title 'filled: measured'" }
    }
    eval draw
}
unset multiplot
