# gpu-report.awk: what gpu-acceptance knows until now (rows.txt, stages.txt, torch.txt, not-run.txt, profile.json, profile.txt), as
# report.md on standard output, report.json.new and points.json (for redco-plot predicted-vs-measured).
function median(list, n,    i, j, t) {
    for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (list[j] < list[i]) { t = list[i]; list[i] = list[j]; list[j] = t }
    return n > 0 ? (list[int((n + 1) / 2)] + list[int((n + 2) / 2)]) / 2 : 0
}
function absolute(x) { return x < 0 ? -x : x }
function text(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); gsub(/[\001-\037]/, " ", s); return "\"" s "\"" }
function cell(s) { gsub(/\|/, "/", s); return s }
# awk reads "nan" as a number or as a word, by its kind: numbers that are not known are written as null.
function known(s) { return s ~ /^[-+]?[0-9.]+([eE][-+]?[0-9]+)?$/ }
function number(s) { return known(s) ? s : "null" }
function bar(name, wanted, status, found) {
    bars = bars sprintf("%s\n  {\"bar\": %s, \"wanted\": %s, \"measured\": %s, \"status\": \"%s\"}", bars == "" ? "" : ",", text(name), text(wanted), text(found), status)
    table = table sprintf("| %s | %s | %s | **%s** |\n", name, wanted, cell(found), status)
}
function judge(counts, met) { return !counts ? "not measured" : met ? "met" : "missed" }
BEGIN {
    FS = "|"
    source = backend == "cuda" ? "one GPU" : "this machine"
    real = backend == "cuda" && short != "true"
    getline began <"began.txt"
    while ((getline line <"profile.json") > 0) {
        if (line ~ /"power": *\[/) { in_power = 1 }
        while (in_power && match(line, /"[a-z_]+": *("[^"]*"|[-+.0-9eE]+)/)) {
            pair[1] = substr(line, RSTART + 1, RLENGTH - 1); line = substr(line, RSTART + RLENGTH)
            pair[2] = pair[1]; sub(/".*/, "", pair[1]); sub(/^[^:]*: *"?/, "", pair[2]); sub(/"$/, "", pair[2])
            if (pair[1] == "operator") { load_count++ }
            load[load_count, pair[1]] = pair[2]
        }
        if (match(line, /"(device|part|capability|driver|kernels|attention|system|date)": *"[^"]*"/)) {
            split(substr(line, RSTART, RLENGTH), pair, /": *"/); gsub(/"/, "", pair[1]); gsub(/"/, "", pair[2])
            if (!(pair[1] in how)) { how[pair[1]] = pair[2] }
        } else if (match(line, /"(clock_hz|clock_after_hz|memory_clock_hz|memory_bytes|multiprocessors|took_s|left_out|launch_s|graph_launch_s|hot_ratio|power_limit_w|idle_w|reserve_bytes|workspace_bytes|contention_ratio|overlap_ratio|spread_ratio)": *[-+.0-9eE]+/)) {
            split(substr(line, RSTART, RLENGTH), pair, /": */); gsub(/"/, "", pair[1])
            if (!(pair[1] in how)) { how[pair[1]] = pair[2] }
        }
    }
    while ((getline line <"profile.txt") > 0) {
        if (line ~ /^constants  product_j_per_flop/) { constants = line; sub(/^constants +/, "", constants) }
        if (line ~ /: warning: (watts|joules of some operators) were not measured: /) { unmeasured = line; sub(/^.*: warning: /, "", unmeasured) }
    }
    while ((getline line <"stages.txt") > 0) {
        split(line, f, "|"); stages[++stage_count] = line; status[f[1]] = f[2]; detail[f[1]] = f[4]
        if (f[2] == "failed") { failures++ }
    }
    while ((getline line <"torch.txt") > 0) { split(line, f, "|"); torch[f[1]] = line; torch_version = f[4] }
    while ((getline line <"not-run.txt") > 0) { not_run[++left_count] = line }
    while ((getline line <"rows.txt") > 0) {
        n = split(line, f, "|"); rows[++row_count] = line
        step[row_count] = known(f[5]) && known(f[6]) && f[6] > 0 ? f[5] / f[6] - 1 : 9
        memory[row_count] = known(f[10]) && known(f[11]) && f[11] > 0 ? f[10] / f[11] - 1 : 9
        steps[row_count] = absolute(step[row_count]); if (steps[row_count] > worst) { worst = steps[row_count]; worst_name = f[2] }
        if (absolute(memory[row_count]) > most) { most = absolute(memory[row_count]); most_name = f[2] }
        names += f[13] + f[14]
        label = f[1]; sub(/ \*$/, "", label)
        if (known(f[8]) && f[8] > mfu[label]) { mfu[label] = f[8]; mfu_name[label] = f[2] }
        if (f[3] in torch) {
            split(torch[f[3]], t, "|"); pairs++
            if (known(t[2]) && known(f[7])) { ratio = f[7] / t[2]; if (ratio > slowest) { slowest = ratio; slowest_name = f[2] } }
        }
    }
    for (i = 1; i <= row_count; i++) { sorted[i] = steps[i] }
    middle = median(sorted, row_count)

    bar("step time, median error against the profile's prediction", "5 %", judge(real && row_count > 0, middle <= 0.05), row_count > 0 ? sprintf("%.1f %% of %d rows", 100 * middle, row_count) : "-")
    bar("step time, worst error", "10 %", judge(real && row_count > 0, worst <= 0.10), row_count > 0 ? sprintf("%.1f %% (%s)", 100 * worst, worst_name) : "-")
    bar("peak memory, worst error", "3 %", judge(real && row_count > 0, most <= 0.03), row_count > 0 ? sprintf("%.2f %% (%s)", 100 * most, most_name) : "-")
    bar("MFU of the 1B model, attention in full", "0.50", judge(real && ("1B" in mfu), mfu["1B"] >= 0.50), "1B" in mfu_name ? sprintf("%.3f (%s)", mfu["1B"], mfu_name["1B"]) : "-")
    bar("MFU of the 7B model", "0.55", judge(real && ("7B" in mfu_name), mfu["7B"] >= 0.55), "7B" in mfu_name ? sprintf("%.3f (%s)", mfu["7B"], mfu_name["7B"]) : "-")
    bar("step time over compiled PyTorch's, same run", "1.00", judge(real && pairs > 0, slowest <= 1.0), pairs > 0 ? sprintf("%.3f at worst of %d rows (%s)", slowest, pairs, slowest_name) : "-")
    bar("operators of plan and trace have the same names", "0 on one side only", judge(row_count > 0, names == 0), row_count > 0 ? sprintf("%d", names) : "-")
    # All but two of the rows, and PyTorch beside four where it is: within the time that is given unless told otherwise.
    enough = rows_wanted > 2 ? rows_wanted - 2 : rows_wanted
    beside = status["PyTorch"] == "skipped" ? "" : " and PyTorch beside 4"
    bar("rows run in the time given", enough " of " rows_wanted beside, judge(real && rows_wanted > 0, row_count >= enough && (beside == "" || pairs >= 4)), row_count + 0 " of " rows_wanted (beside == "" ? "" : ", PyTorch beside " pairs + 0))
    checked = ("parity" in status) && status["parity"] != "skipped"
    bar("training like the reference", "f32 within 1e-3, losses of bf16 within 1e-2", judge(checked, status["parity"] == "passed"), checked ? detail["parity"] : "-")
    shared = ("shared GPU" in status) && status["shared GPU"] != "skipped"
    bar("ranks that share the GPU, by NCCL", "as one rank; a killed one ends all", judge(shared, status["shared GPU"] == "passed"), "shared GPU" in status ? detail["shared GPU"] : "-")
    clean = ("sanitizer" in status) && status["sanitizer"] != "skipped"
    bar("compute-sanitizer", "clean", judge(clean, status["sanitizer"] == "passed"), clean ? detail["sanitizer"] : "-")

    printf "# redco on %s\n\n", backend == "cuda" ? ("part" in how ? how["part"] : "a GPU") : "this machine's processors"
    if (short == "true") { printf "A short run: that everything works. Its times say nothing.\n\n" }
    printf "%s · begun %s · %d of %d s%s\n\n", version, began, took, budget, backend == "cuda" ? "" : " · no GPU: bars are not measured"
    if ("device" in how) {
        printf "Device `%s`%s%s, %s, %s; %s; %s.\n", how["device"], "capability" in how ? ", compute capability " how["capability"] : "", "multiprocessors" in how ? ", " how["multiprocessors"] " multiprocessors" : "", "driver" in how ? how["driver"] : backend, how["kernels"], how["system"], "measured " how["date"]
        if ("attention" in how) { printf "Attention by %s.\n", how["attention"] ~ /own kernels: / ? "**" how["attention"] "**, which take two to five times as long as cuDNN's" : how["attention"] }
        if ("memory_bytes" in how) {
            printf "Memory %.1f GB, of which driver and libraries hold %.2f GB; workspaces of products %.0f MB. Clocks %.0f MHz before and %.0f MHz after, memory %.0f MHz; a large product took %.3f times as long at the end as at the beginning.\n",
                how["memory_bytes"] / 1e9, how["reserve_bytes"] / 1e9, how["workspace_bytes"] / 1e6, how["clock_hz"] / 1e6, how["clock_after_hz"] / 1e6, how["memory_clock_hz"] / 1e6, how["hot_ratio"]
            printf "Profile in %.0f s, %d operators left out; a launch takes the program %.1f us%s; a second of a collective's memory traffic costs %.2f s of products beside it.\n", how["took_s"], how["left_out"] + 0, how["launch_s"] * 1e6, "graph_launch_s" in how ? sprintf(", a block's operators as one graph %.1f us", how["graph_launch_s"] * 1e6) : "", how["contention_ratio"] + 0
        }
        print ""
    }
    printf "## Bars\n\n| bar | wanted | measured | |\n|---|---|---|---|\n%s\n", table
    printf "## Models\n\n| row | predicted s | measured s | error | MFU | memory GB predicted | measured | error | products | attention | other operators | update | gaps |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    for (i = 1; i <= row_count; i++) {
        split(rows[i], f, "|")
        share = known(f[6]) && f[6] > 0 ? 100 / f[6] : 0
        printf "| %s | %.4f | %.4f | %+.1f %% | %.3f | %.2f | %.2f | %+.2f %% | %.0f %% | %.0f %% | %.0f %% | %.0f %% | %.0f %% |\n", f[2], f[5], f[6], 100 * step[i], f[8], f[10] / 1e9, f[11] / 1e9, 100 * memory[i],
            share * f[15], share * f[16], share * f[18], share * f[17], share * (f[6] - f[19])
        json = json sprintf("%s\n  {\"row\": %s, \"files\": %s, \"tokens\": %d, \"predicted_step_s\": %s, \"measured_step_s\": %s, \"median_step_s\": %s, \"error\": %.5f, \"predicted_mfu\": %s, \"mfu\": %s, \"predicted_peak_bytes\": %s, \"measured_peak_bytes\": %s, \"allocated_bytes\": %s, \"memory_error\": %.5f, \"missing_operators\": %s, \"extra_operators\": %s, \"products_s\": %s, \"attention_s\": %s, \"update_s\": %s, \"other_operators_s\": %s, \"computation_s\": %s, \"furthest\": %s, \"took_s\": %s, \"predicted_watts\": %s, \"measured_watts\": %s}",
            i > 1 ? "," : "", text(f[2]), text(f[3]), f[4], number(f[5]), number(f[6]), number(f[7]), step[i], number(f[9]), number(f[8]), number(f[10]), number(f[11]), number(f[12]), memory[i], number(f[13]), number(f[14]), number(f[15]), number(f[16]), number(f[17]), number(f[18]), number(f[19]), text(f[20]), number(f[21]), number(f[22]), number(f[23]))
        if (known(f[22]) || known(f[23])) { watts = watts sprintf("| %s | %s | %s | %s |\n", f[2], known(f[22]) ? sprintf("%.0f", f[22]) : "-", known(f[23]) ? sprintf("%.0f", f[23]) : "-", known(f[23]) && known(f[6]) && f[4] > 0 ? sprintf("%.3g", f[23] * f[6] / f[4]) : "-") }
        points = points sprintf("%s\n {\"source\": %s, \"location\": %s, \"measured_tgs\": %.6g, \"predicted_tgs\": %.6g, \"error\": %.5f, \"skipped\": null}", i > 1 ? "," : "", text(source), text(f[2]), f[6] > 0 ? f[4] / f[6] : 1, f[5] > 0 ? f[4] / f[5] : 1, f[5] > 0 ? f[6] / f[5] - 1 : 0)
    }
    if (row_count == 0) { printf "| none was measured | | | | | | | | | | | | |\n" }
    printf "\nShares are of the measured step: what takes most is what limits a row; gaps are times when the device computed nothing.\n"
    if (row_count > 0) {
        printf "\nFurthest off, of a step, predicted/measured:\n\n"
        for (i = 1; i <= row_count; i++) { split(rows[i], f, "|"); printf "- %s: %s\n", f[2], f[20] }
    }
    if (backend == "cuda") {
        printf "\n## Watts\n\n"
        if ("idle_w" in how) { printf "%.0f W idle, limit %.0f W.%s\n", how["idle_w"], how["power_limit_w"], constants != "" ? " Constants of the model: " constants "." : "" }
        if (unmeasured != "") { printf "%s%s.\n", "idle_w" in how ? "\n" : "", unmeasured }
        else if (!("idle_w" in how)) { printf "The profile has none.\n" }
        if (load_count > 0) { printf "\n| without pause | pass | size | numbers | J each | s each | W | MHz | memory MHz | settled after s | by |\n|---|---|---|---|---|---|---|---|---|---|---|\n" }
        for (i = 1; i <= load_count; i++) {
            size = load[i, "m"] != "" ? load[i, "m"] " x " load[i, "n"] " x " load[i, "k"] : load[i, "elements"]
            printf "| %s | %s | %s | %s | %.4g | %.4g | %.0f | %.0f | %.0f | %.2f | %s |\n", load[i, "operator"], load[i, "pass"], size, load[i, "numbers"], load[i, "energy_j"], load[i, "time_s"], load[i, "watts"], load[i, "clock_hz"] / 1e6,
                load[i, "memory_clock_hz"] / 1e6, load[i, "settle_s"], load[i, "counted_by"]
            loads_json = loads_json sprintf("%s\n  {\"operator\": %s, \"pass\": %s, \"size\": %s, \"numbers\": %s, \"energy_j\": %s, \"time_s\": %s, \"watts\": %s, \"clock_hz\": %s}", i > 1 ? "," : "", text(load[i, "operator"]), text(load[i, "pass"]),
                text(size), text(load[i, "numbers"]), number(load[i, "energy_j"]), number(load[i, "time_s"]), number(load[i, "watts"]), number(load[i, "clock_hz"]))
        }
    }
    if (watts != "") { printf "\n| row | W predicted | W measured | J a token |\n|---|---|---|---|\n%s", watts }
    printf "\n## Beside PyTorch\n\n"
    if (pairs == 0) { printf "%s.\n", "PyTorch" in detail ? detail["PyTorch"] : "Nothing was measured" }
    else {
        printf "PyTorch %s, compiled, scaled_dot_product_attention, bf16 with 32-bit master weights, fused AdamW, the same steps.\n\n| row | redco s | PyTorch s | redco over PyTorch | redco GB | PyTorch GB | compiled in s |\n|---|---|---|---|---|---|---|\n", torch_version
        for (i = 1; i <= row_count; i++) {
            split(rows[i], f, "|"); if (!(f[3] in torch)) { continue }
            split(torch[f[3]], t, "|")
            printf "| %s | %.4f | %.4f | %.3f | %.2f | %.2f | %.0f |\n", f[2], f[7], t[2], f[7] / t[2], f[12] / 1e9, t[3] / 1e9, t[5]
            side = side sprintf("%s\n  {\"row\": %s, \"redco_step_s\": %s, \"pytorch_step_s\": %s, \"pytorch_peak_bytes\": %s, \"pytorch\": %s}", side == "" ? "" : ",", text(f[2]), number(f[7]), number(t[2]), number(t[3]), text(t[4]))
        }
    }
    printf "\n## Stages\n\n| stage | | s | |\n|---|---|---|---|\n"
    for (i = 1; i <= stage_count; i++) {
        split(stages[i], f, "|"); printf "| %s | %s | %s | %s |\n", f[1], f[2], f[3], f[4]
        stage_json = stage_json sprintf("%s\n  {\"stage\": %s, \"status\": \"%s\", \"took_s\": %d, \"text\": %s}", i > 1 ? "," : "", text(f[1]), f[2], f[3], text(f[4]))
    }
    if (left_count > 0) {
        printf "\n## Not run\n\n"
        for (i = 1; i <= left_count; i++) {
            split(not_run[i], f, "|"); printf "- %s: %s\n", f[1], f[2]
            left_json = left_json sprintf("%s\n  {\"row\": %s, \"why\": %s}", i > 1 ? "," : "", text(f[1]), text(f[2]))
        }
    }
    printf "{\"format\": \"redco-gpu-acceptance\", \"version\": 1, \"backend\": \"%s\", \"short\": %s, \"began\": %s, \"took_s\": %d, \"budget_s\": %d, \"program\": %s,\n", backend, short, text(began), took, budget, text(version) >"report.json.new"
    printf " \"device\": {\"name\": %s, \"part\": %s, \"driver\": %s, \"libraries\": %s, \"attention\": %s, \"clock_hz\": %s, \"clock_after_hz\": %s, \"memory_clock_hz\": %s, \"hot_ratio\": %s},\n", text(how["device"]), text(how["part"]), text(how["driver"]), text(how["kernels"]), text(how["attention"]), number(how["clock_hz"]), number(how["clock_after_hz"]), number(how["memory_clock_hz"]), number(how["hot_ratio"]) >"report.json.new"
    printf " \"power\": {\"idle_w\": %s, \"limit_w\": %s, \"constants\": %s, \"loads\": [%s]},\n", number(how["idle_w"]), number(how["power_limit_w"]), text(constants), loads_json >"report.json.new"
    printf " \"bars\": [%s],\n \"rows\": [%s],\n \"pytorch\": [%s],\n \"stages\": [%s],\n \"not_run\": [%s]}\n", bars, json, side, stage_json, left_json >"report.json.new"
    printf "{\"format\": \"redco-validate\", \"version\": 1, \"rows\": [%s],\n \"sources\": [{\"source\": %s, \"rows\": %d, \"median_ape\": %.5f}], \"all\": {\"rows\": %d, \"median_ape\": %.5f}}\n", points, text(source), row_count, middle, row_count, middle >"points.json"
}
