# Throughput under each overlap setting, in groups of equal model and batch; diamonds are measured runs.
array tone[8] = ['#FFFFFF', '#56B4E9', '#E69F00', '#0072B2', '#009E73', '#CC79A7', '#D55E00', '#F0E442']
array texture[8] = [3, 3, 4, 3, 5, 3, 4, 3]
wide = 0.8 / settings
place(i) = (i - (settings + 1) / 2.0) * wide
set title title noenhanced
set grid y ls 100
set xrange [-0.6:groups - 0.4]
set yrange [0:*]
set offsets 0, 0, graph 0.06, 0
set ylabel 'throughput (tokens/s per GPU)'
set xtics nomirror scale 0
set xlabel "\n "
set key below center horizontal samplen 2 spacing 1.25
draw = "plot for [i=1:settings] $bars index i-1 using ($1 + place(i)):($2/2):(0.46 * wide):($2/2) with boxxyerror fs pattern texture[i] border lc rgb '#333333' lw 0.8 lc rgb tone[i] title setting[i]"
if (banded) { draw = draw.", for [i=1:settings] $bars index i-1 using ($1 + place(i)):($2-$3):(0):(2*$3) with vectors nohead lw 1.5 lc rgb '#000000' notitle" }
draw = draw.", for [i=1:settings] $bars index i-1 using ($1 + place(i)):($2 + $3 > $5 ? $2 + $3 : $5):($4 > 0 ? sprintf('%.2f×', $4) : '') with labels offset 0,0.8 font ',10' notitle"
if (measured) {
    draw = draw.", $measured using ($1 + place($2 + 1)):3 with points pt 13 ps 1.5 lc rgb '#ffffff' notitle"
    draw = draw.", $measured using ($1 + place($2 + 1)):3 with points pt 13 ps 1 lc rgb '#000000' title 'measured'"
}
eval draw
