# awk -v process=P -v factor=F -v at_us=T -v step=K -v only=KIND -f retime.awk TRACE
# Events of a trace that redco wrote, one a line, as rank P might have run them: begun at T and F times as long. With a
# KIND only its spans take F times as long, and begin when they did. With a step, that is told. Arrows are left out.
function number(key) {
    return match($0, "\"" key "\":[0-9.]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : 0
}
function set(key, value) {
    sub("\"" key "\":[0-9.]+", "\"" key "\":" sprintf("%.3f", value))
}
BEGIN {
    if (factor == "") factor = 1
}
/"ph":"[XCM]"/ {
    sub(/"pid":[0-9]+/, "\"pid\":" process + 0)
    sub(/"name":"rank"/, "\"name\":\"rank " process + 0 "\"")
    own = only == "" || index($0, "\"cat\":\"" only "\"") ? factor : 1
    if (index($0, "\"ts\"")) set("ts", at_us + number("ts") * (only == "" ? factor : 1))
    if (index($0, "\"dur\"")) set("dur", number("dur") * own)
    if (step != "" && index($0, "\"ph\":\"X\"") && !sub(/"args":\{\}/, "\"args\":{\"step\":" step "}")) sub(/"args":\{/, "\"args\":{\"step\":" step ",")
    sub(/,?$/, ",")
    print
}
