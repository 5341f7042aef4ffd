# What all pictures share. Colours: Okabe and Ito, "Color Universal Design", 2008, safe for the colour-blind; markers and
# dashes differ, too, so that a picture reads in black and white. Styles 1 to 10 are strategies (plot.c), 11 any other.
set encoding utf8
set datafile separator "\t"
set border 3 lc rgb '#444444'
set tics out nomirror
set style fill solid border lc rgb '#333333'
set style textbox opaque noborder margins 0.6, 0.4
set style line 100 lc rgb '#dddddd' lt 1 lw 0.6
array colour[11] = ['#000000', '#0072B2', '#777777', '#009E73', '#E69F00', '#CC79A7', '#56B4E9', '#D55E00', '#000000', '#777777', '#999999']
array filled[11] = [1, 5, 11, 13, 15, 9, 3, 7, 2, 9, 2]
array outline[11] = [1, 4, 10, 12, 14, 8, 3, 6, 2, 8, 2]
set style line 1 lc rgb '#000000' lw 1.5 dt (1,2) pt 1
set style line 2 lc rgb '#0072B2' lw 1.5 dt (8,3) pt 4
set style line 3 lc rgb '#777777' lw 1.5 dt (2,2) pt 10
set style line 4 lc rgb '#009E73' lw 1.5 dt (12,3,2,3) pt 12
set style line 5 lc rgb '#E69F00' lw 1.5 dt (5,2) pt 14
set style line 6 lc rgb '#CC79A7' lw 1.5 dt (4,2,1,2) pt 8
set style line 7 lc rgb '#56B4E9' lw 1.5 dt (10,2,2,2,2,2) pt 3
set style line 8 lc rgb '#D55E00' lw 2.5 dt 1 pt 6
set style line 9 lc rgb '#000000' lw 2.5 dt 1 pt 2
set style line 10 lc rgb '#777777' lw 1.5 dt (3,3) pt 8
set style line 11 lc rgb '#999999' lw 1.5 dt 1 pt 2
