f() { case $1 in a|b) X=$((1/0)); ;; *) X=${Y:-"${Z:=3}"};; esac; }
f b; for i in 1 2; do ((X=i*2)); done
if ! [[ -z $X || ( a < b ) ]]; then cat <<-E
	x
	E
fi
(torchrun a.py --x `expr 1 + 2` --y ${A[@]:1} ${#A[@]} ) 2>&1 | tee "$0" &
