# Every compared run: measured across, predicted up; beside it the same runs as a ratio. One colour and marker for each
# source, errors in the legend.
array tone[16] = ['#E69F00', '#0072B2', '#009E73', '#D55E00', '#CC79A7', '#56B4E9', '#000000', '#A89400', '#0072B2', '#D55E00', '#009E73', '#E69F00', '#CC79A7', '#56B4E9', '#000000', '#777777']
array marker[16] = [1, 6, 8, 10, 12, 4, 2, 3, 5, 9, 7, 11, 13, 15, 14, 1]
set multiplot
set label 1 title noenhanced at screen 0.5, 1 - 18.0 / height center font ',14'
set grid ls 100
stats $points using 1 name 'M' nooutput
stats $points using 2 name 'P' nooutput
stats $points using ($2/$1) name 'R' nooutput
low = 0.85 * (M_min < P_min ? M_min : P_min)
high = 1.18 * (M_max > P_max ? M_max : P_max)
set xrange [low:high]
set yrange [low:high]
# Within a decade a logarithmic axis has no number but one.
if (high > 10 * low) { set logscale xy } else { set xtics autofreq; set ytics autofreq }
# Many: what leaves the picture is cut off at a sample.
set samples 500
set lmargin at screen 104.0 / width
set rmargin at screen 580.0 / width
set tmargin at screen 1 - 44.0 / height
set bmargin at screen 76.0 / height
set xlabel 'measured (tokens/s per GPU)'
set ylabel 'predicted (tokens/s per GPU)'
set key at screen 640.0 / width, 1 - 40.0 / height left top vertical Left reverse samplen 1.5 spacing 1.2 width -2
band = "filledcurves fs solid noborder lc rgb '#dcdcdc'"
line = "lines lw 1 lc rgb '#555555'"
dots = "with points pt marker[i] ps (many[i] ? 0.45 : 0.6) lw 1.1 lc rgb tone[i]"
head = "-1 with lines lw 0.1 lc rgb '#ffffff' title"
draw = "plot '+' using 1:($1 * 0.9):($1 * 1.1) with ".band." title '±10 %', x with ".line." title 'predicted = measured'"
draw = draw.", ".head." 'source (runs): error in mean / median / 90th percentile'"
draw = draw.", for [i=1:sources] $points index i-1 using 1:2 ".dots." title source[i]"
if (strlen(overall)) { draw = draw.", ".head." overall" }
eval draw
unset label 1
unset logscale y
set lmargin at screen 686.0 / width
set rmargin at screen 1 - 20.0 / width
set tmargin at screen 290.0 / height
least = R_min < 0.78 ? R_min - 0.02 : 0.78
most = R_max > 1.22 ? R_max + 0.02 : 1.22
set yrange [least:most]
set ylabel 'predicted / measured'
set key off
eval "plot '+' using 1:(0.9):(1.1) with ".band.", 1 with ".line.", for [i=1:sources] $points index i-1 using 1:($2/$1) ".dots
unset multiplot
