"""Writes a trace with so many spans, each with arguments, and a flow from every second to the next."""
import sys

print('{"traceEvents":[')
print('{"ph":"M","pid":0,"name":"process_name","args":{"name":"rank 0"}}')
for i in range(int(sys.argv[1])):
    at, thread = 10 * (i // 2), i % 2
    print(f',{{"ph":"X","pid":0,"tid":{thread},"name":"fwd/block.{i % 48}/ffn_in","cat":"forward","ts":{at}.000,"dur":9.500,'
          f'"args":{{"op":{i},"bytes":{4096 * i},"group":"1x8","layer":{i % 48}}}}}')
    print(f',{{"ph":"{"f" if thread else "s"}","pid":0,"tid":{thread},"name":"gather","cat":"flow","id":{i // 2},'
          f'"ts":{at + 2}.000}}'.replace(f'"id":{i // 2},', "").replace('"ph"', f'"id":{i // 2},"ph"', 1))
    if i % 4 == 0:
        print(f',{{"ph":"C","pid":0,"name":"memory","ts":{at}.000,"args":{{"parameters":1e9,"activations":{i}e4}}}}')
print('],"otherData":{"source":"simulated"}}')
