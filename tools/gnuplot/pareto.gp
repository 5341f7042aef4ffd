# Memory against throughput: every candidate, the front that nothing beats in both, named strategies, the choice.
set title title noenhanced
set grid ls 100
set xlabel "memory per GPU (GB)\n "
set ylabel 'throughput (tokens/s per GPU)'
set xrange [*:capacity * 1.02]
set offsets graph 0.03, 0, graph 0.06, graph 0.03
set key below center horizontal samplen 3 spacing 1.25 width -3
set arrow 1 from capacity, graph 0 to capacity, graph 1 nohead dt (6,4) lw 1.5 lc rgb '#555555'
draw = "plot $front using 1:2 with steps lw 1.2 dt (2,2) lc rgb '#333333' title 'nothing beats it in both'"
if (listed) { draw = draw.", $listed using 1:2 with points pt 7 ps 0.35 lc rgb '#aaaaaa' title sprintf('the %d best candidates', listed)" }
if (named) {
    draw = draw.", for [i=1:named] $named index i-1 using 1:2 with points pt filled[named_style[i]] ps 1.4 lw 4 lc rgb '#000000' notitle"
    draw = draw.", for [i=1:named] $named index i-1 using 1:2 with points pt filled[named_style[i]] ps 1.1 lw 2 lc rgb colour[named_style[i]] title named_name[i]"
}
draw = draw.", $chosen using 1:2 with points pt 6 ps 2.2 lw 2.5 lc rgb '#000000' title 'chosen', 1/0 with lines dt (6,4) lw 1.5 lc rgb '#555555' title 'usable memory'"
eval draw
