# What no two runs or versions share; applied to expected and actual text of every golden case.
# Solver time: JSON and table.
s/"seconds": [-+.e0-9]*/"seconds": SECONDS/
s/\(strategies in \)[.0-9]* [mu]\{0,1\}s/\1TIME/
# Versions of redco and of the libraries that it names.
s/"redco_version": "[^"]*"/"redco_version": "VERSION"/
s/^\(redco-[a-z]*\) [0-9][0-9]*\.[0-9][0-9]*\.[0-9][0-9]*$/\1 VERSION/
s/GLPK [0-9][0-9]*\.[0-9][0-9]*/GLPK VERSION/
