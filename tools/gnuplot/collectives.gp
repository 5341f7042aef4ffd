# Bus bandwidth over message size: lines are the model, points the measurement.
array tone[8] = ['#0072B2', '#D55E00', '#009E73', '#E69F00', '#CC79A7', '#56B4E9', '#000000', '#777777']
array marker[8] = [7, 5, 9, 11, 13, 15, 6, 4]
array dash[8] = [1, 2, 3, 4, 5, 2, 3, 4]
set title title noenhanced
set logscale x 10
set logscale y 10
set grid ls 100
set format x '%.0s %cB'
set format y '%g'
set xlabel "message size of the collective\n "
set ylabel 'bus bandwidth (GB/s)'
set key below center horizontal samplen 3 spacing 1.2
set autoscale fix
set offsets graph 0.02, graph 0.02, graph 0.02, graph 0.02
plot for [i=1:curves] $curves index i-1 using 1:3 with lines lw 1.6 dt dash[i] lc rgb tone[i] notitle, \
     for [i=1:curves] $curves index i-1 using 1:2 with points pt marker[i] ps 0.8 lc rgb tone[i] notitle, \
     for [i=1:curves] 1/0 with linespoints lw 1.8 dt dash[i] pt marker[i] lc rgb tone[i] title curve[i], \
     1/0 with lines lw 0.1 lc rgb '#ffffff' title 'lines: model, points: measured'
