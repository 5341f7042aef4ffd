# sed -E. Numbers that a prediction moves become N, in the streams that a case's file "mask" names: numbers with a fraction,
# an exponent, thousands or seven digits, and those before a unit or a per cent sign. Degrees, counts of GPUs and layers,
# shapes, names, versions and words stay, so a case still says which layout was chosen and how it is described.
s/\b([0-9]+)\.([0-9]+)\.([0-9]+)\b/\1\x01\2\x01\3/g
s/arXiv ([0-9]+)\.([0-9]+)/arXiv \1\x01\2/g
s/\b([0-9]{1,3}(,[0-9]{3})+) (GPUs?|sequences|nodes|layers)\b/\1@\3/g
s/(^|[^A-Za-z0-9_.])[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?([^0-9@])/\1N\4/g
s/(^|[^A-Za-z0-9_.])[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$/\1N/
s/@(GPU|seq|node|layer)/ \1/g
s/(^|[^A-Za-z0-9_.-])[-+]?[0-9]+\.[0-9]+(e[-+]?[0-9]+)?\b/\1N/g
s/(^|[^A-Za-z0-9_.-])[-+]?[0-9]+e[-+]?[0-9]+\b/\1N/g
s/(^|[^A-Za-z0-9_.×-])[-+]?[0-9]{7,}\b/\1N/g
s/± ?[0-9]+\b/± N/g
s/\b[0-9]+ ±/N ±/g
s/\b[0-9]{3}( ·|  )/N\1/g
s/(^|[^A-Za-z0-9_.×-])[-+]?[0-9]+ (%|ns|us|µs|ms|s|min|h|days|k?W|[mkM]?J|[kMGT]i?B|[MBT] )([^A-Za-z0-9]|$)/\1N \2\3/g
s/\x01/./g
# A number that grows takes the next unit, and moves columns.
s/N (ns|us|µs|ms|s|min|h|days)\b/N s/g
s/N ([mkM]?J)\b/N J/g
s/N [kMGT]i?B\b/N GB/g
s/N [kMBT]( |$)/N\1/g
s/[0-9N]+ \([0-9N]+ to [0-9N]+\)/N (N to N)/g
s/\b[0-9]+ (in the run|spare nodes|for N %)/N \1/g
s/-{3,}/---/g
s/  +/ /g
