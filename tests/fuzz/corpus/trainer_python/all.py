a.b = {"c": [1, (2, "x")], 'd': dict(e=1.5, f(2), g=h(i="j"))} # k
for x in y: z(1,
 2)
"""doc"""
q = -1e-3
