# A run's phases over time: bars from start to end, whiskers where each may end by its own band.
set title title noenhanced
set grid x ls 100
set xlabel "days"
set xrange [0:end * 1.02]
set yrange [phases - 0.4:-0.6]
set key off
half = 0.28
inside(from, to) = to - from > 0.45 * end
plot $phases using 2:1:2:3:($1 - half):($1 + half) with boxxyerror fs solid 0.55 lc rgb colour[2], \
     '' using 3:($1 + half + 0.08):4:5 with xerrorbars pt 0 lw 1.4 lc rgb '#333333', \
     '' using (inside($2, $3) ? 0.5 * ($2 + $3) : 1/0):1:6 with labels center noenhanced tc rgb '#000000', \
     '' using (inside($2, $3) || $3 > 0.5 * end ? 1/0 : $3):1:6 with labels left offset 1,0 noenhanced tc rgb '#000000', \
     '' using (!inside($2, $3) && $3 > 0.5 * end ? $2 : 1/0):1:6 with labels right offset -1,0 noenhanced tc rgb '#000000'
