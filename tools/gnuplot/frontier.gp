# Days against money (or GPU-hours) and against energy: every choice with its band, and the front that none beats in both.
set grid ls 100
set logscale x
set xlabel "days"
set offsets graph 0.08, graph 0.12, graph 0.08, graph 0.04
set format y '%.1s %c'
colour_of(s) = colour[(s - 1) % 7 + 2]
panels = energy ? 2 : 1
set multiplot layout 1,panels title title noenhanced margins screen (panels > 1 ? 0.07 : 0.11), screen 0.98, screen 0.24, screen 0.91 spacing screen 0.08
do for [panel=1:panels] {
    column_y = panel == 1 ? 4 : 5
    set ylabel (panel == 1 ? cost_name : "MWh") noenhanced
    unset arrow
    if (panel == 1) { set key at screen 0.5, screen 0.03 center bottom horizontal samplen 2 maxrows 2 } else { unset key }
    if (deadline > 0) { set arrow from deadline, graph 0 to deadline, graph 1 nohead dt (6,4) lw 1.5 lc rgb '#555555' }
    draw = "plot ".(panel == 1 ? "$front_money" : "$front_energy")." using 1:2 with lines lw 1.2 dt (2,2) lc rgb '#333333' title 'no choice beats it in both'"
    draw = draw.", for [s=1:series] $points index s-1 using 1:column_y:2:3 with xerrorbars pt filled[(s - 1) % 7 + 2] ps 1 lw 1.2 lc rgb colour_of(s) title name[s]"
    draw = draw.", for [s=1:series] $points index s-1 using 1:column_y:(sprintf('%d', int(column(6)))) with labels offset 0,0.9 font ',10' tc rgb '#444444' notitle"
    if (has_chosen) { draw = draw.", $chosen using 1:(column(panel + 1)) with points pt 6 ps 2.4 lw 2.5 lc rgb '#000000' title 'chosen'" }
    if (deadline > 0) { draw = draw.", 1/0 with lines dt (6,4) lw 1.5 lc rgb '#555555' title 'deadline'" }
    eval draw
}
unset multiplot
