# Bars of components, one for each plan: memory against what is usable, or the parts of a step.
if (memory) {
    array tone[5] = ['#0072B2', '#D55E00', '#4DC3A0', '#F0E442', '#CC79A7']
    array texture[5] = [3, 4, 3, 3, 5]
} else {
    array tone[8] = ['#56B4E9', '#0072B2', '#009E73', '#F0E442', '#E69F00', '#D55E00', '#CC79A7', '#FFFFFF']
    array texture[8] = [3, 3, 4, 3, 5, 3, 2, 3]
}
set title title noenhanced
set grid y ls 100
set xrange [-0.6:bars - 0.4]
set yrange [0:*]
set offsets 0, 0, graph 0.06, 0
set ylabel memory ? 'memory per GPU (GB)' : 'time of a step (s)'
set xtics nomirror scale 0
if (rotated) { set xtics rotate by -30 }
set xlabel ' '
set key below center horizontal samplen 2 spacing 1.25
draw = "plot for [i=1:parts] $stacks index i-1 using 1:(($2+$3)/2):(0.32):(($3-$2)/2) with boxxyerror fs pattern texture[i] border lc rgb '#333333' lw 0.8 lc rgb tone[i] title part[i]"
if (missing && memory) {
    draw = draw.", $missing using 1:($3/2):(0.32):($3/2) with boxxyerror fs empty border lc rgb '#555555' lc rgb '#555555' title 'does not fit'"
    draw = draw.", $missing using 1:3:(sprintf($5 > 0 ? '%.0f ↑' : '%.1f', $4)) with labels offset 0,0.7 notitle"
    draw = draw.", $missing using ($1-0.4):2:(0.8):(0) with vectors nohead lw 2.5 lc rgb '#000000' notitle"
}
if (missing && !memory) { draw = draw.", $missing using 1:2:('does not fit') with labels offset 0,0.8 font ',10' notitle" }
if (memory) { draw = draw.", $totals using ($1-0.4):4:(0.8):(0) with vectors nohead lw 2.5 lc rgb '#000000' title 'usable memory'" }
draw = draw.", $totals using 1:5:(sprintf(memory ? '%.1f' : $2 < 99.95 ? '%#.3g' : '%.0f', $2)) with labels offset 0,0.6 notitle"
eval draw
