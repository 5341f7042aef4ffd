# Runs that teams published, one line each: throughput as redco predicts it over what was measured, and what redco's own
# advice gains over the layout that ran, by its own model. Open marks: layouts that are told not to fit.
set multiplot
set label 1 title noenhanced at screen 0.5, 1 - 16.0 / height center font ',14'
set grid x y ls 100
set yrange [rows + 0.5 : 0.5]
set ytics scale 0 font ',10'
set for [i=1:rows] ytics add (label[i] i)
set tmargin at screen 1 - 34.0 / height
set bmargin at screen 52.0 / height
set lmargin at screen 220.0 / width
set rmargin at screen 600.0 / width
set xlabel 'predicted / measured throughput of the layout that ran'
set xrange [least : most]
set key off
set arrow 1 from 1, graph 0 to 1, graph 1 nohead lw 1 lc rgb '#555555'
set object 1 rectangle from 0.9, graph 0 to 1.1, graph 1 behind fs solid noborder fc rgb '#e4e4e4'
plot $runs using 2:($4 > 0 ? $1 : NaN) with points pt 7 ps 0.6 lc rgb '#0072B2', \
     $runs using 2:($4 > 0 ? NaN : $1) with points pt 6 ps 0.6 lc rgb '#0072B2'
unset arrow 1
unset object 1
unset label 1
unset ytics
set lmargin at screen 625.0 / width
set rmargin at screen 1 - 20.0 / width
set xlabel 'gain of the advice (%)'
set xrange [least_gain : most_gain]
set arrow 2 from 0, graph 0 to 0, graph 1 nohead lw 1 lc rgb '#555555'
plot $runs using (0):($4 > 0 ? $1 : NaN):3:(0) with vectors nohead lw 4 lc rgb '#E69F00', \
     $runs using 3:($4 > 0 ? $1 : NaN) with points pt 7 ps 0.5 lc rgb '#E69F00', \
     $runs using 3:($4 > 0 ? NaN : $1) with points pt 6 ps 0.6 lc rgb '#E69F00'
unset multiplot
