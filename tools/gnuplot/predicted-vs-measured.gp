# Every compared run: measured across, predicted up; one colour and marker for each source, errors in the legend.
array tone[16] = ['#0072B2', '#E69F00', '#009E73', '#D55E00', '#CC79A7', '#56B4E9', '#000000', '#A89400', '#0072B2', '#E69F00', '#009E73', '#D55E00', '#CC79A7', '#56B4E9', '#000000', '#777777']
array marker[16] = [6, 4, 8, 10, 12, 14, 1, 2, 3, 5, 9, 11, 13, 15, 7, 2]
set title title noenhanced
set logscale xy
set grid ls 100
set lmargin at screen 104.0 / width
set rmargin at screen 600.0 / width
set tmargin at screen 1 - 40.0 / height
set bmargin at screen 76.0 / height
set xlabel 'measured (tokens/s per GPU)'
set ylabel 'predicted (tokens/s per GPU)'
set key at screen 616.0 / width, 1 - 40.0 / height left top vertical Left reverse samplen 1.5 spacing 1.35 width -2
stats $points using 1 name 'M' nooutput
stats $points using 2 name 'P' nooutput
low = 0.85 * (M_min < P_min ? M_min : P_min)
high = 1.18 * (M_max > P_max ? M_max : P_max)
set xrange [low:high]
set yrange [low:high]
set samples 2
draw = "plot '+' using 1:($1 * 0.9):($1 * 1.1) with filledcurves fs solid noborder lc rgb '#e4e4e4' title '±10 %', x with lines lw 1 lc rgb '#555555' title 'predicted = measured'"
draw = draw.", for [i=1:sources] $points index i-1 using 1:2 with points pt marker[i] ps 0.75 lw 1.2 lc rgb tone[i] title source[i]"
if (strlen(overall)) { draw = draw.", 1/0 with lines lw 0.1 lc rgb '#ffffff' title overall" }
eval draw
