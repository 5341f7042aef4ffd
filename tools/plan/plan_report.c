/* Head of a report, and words that its parts share. */
#include "tools/plan/plan_report.h"

#include "tools/cli/text_table.h"

#include <stdio.h>
#include <string.h>

#define TIMES "\xc3\x97"
#define DOT " \xc2\xb7 "

enum { SHORT = 64, WIDEST_HEADER = 120 };

const char *report_mesh(redco_mesh mesh, char *buffer, size_t size)
{
    (void)snprintf(buffer, size, "%u" TIMES "%u", mesh.gpus, mesh.nodes);
    return buffer;
}

/* Transformer layers by what they recompute: embedding and head keep little that could be computed again. */
struct mix {
    redco_recompute_list sets;
    uint64_t layers[REDCO_RECOMPUTE_SETS], all;
};

static struct mix mix_of(const redco_model *model, const redco_candidate *candidate)
{
    const redco_layer_class *classes = NULL;
    struct mix mix = {.all = 0};
    (void)redco_model_classes(model, &classes);
    for (uint32_t pass = 0; pass < 2; pass++) { /* the list first */
        for (uint32_t i = 0; i < candidate->assignment_count; i++) {
            const redco_assignment *part = &candidate->assignments[i];
            if (!redco_class_is_block(classes[part->class_index].kind)) { continue; }
            const uint32_t at = redco_recompute_find(&mix.sets, part->config.recompute);
            if (pass == 0) {
                (void)redco_recompute_add(&mix.sets, part->config.recompute);
            } else if (at < mix.sets.count) {
                mix.layers[at] += part->layers;
                mix.all += part->layers;
            }
        }
    }
    return mix;
}

/* "none", "sel", "mlp", "half": in tables */
static const char *briefly(redco_recompute set, bool half, char *buffer, size_t size)
{
    if (set == REDCO_RECOMPUTE_CORE_ATTN) { return "sel"; }
    return redco_recompute_text(set, half, buffer, size);
}

const char *report_recompute(const redco_model *model, const redco_candidate *candidate, char *buffer, size_t size)
{
    const struct mix mix = mix_of(model, candidate);
    if (mix.sets.count == 1) { return redco_recompute_text(mix.sets.sets[0], candidate->half, buffer, size); }
    const uint64_t none = mix.sets.sets[0] == REDCO_RECOMPUTE_NONE ? mix.layers[0] : 0;
    size_t used = 0;
    buffer[0] = '\0';
    for (uint32_t i = mix.sets.count; i-- > 0 && used < size;) {
        const unsigned long long layers = mix.layers[i];
        char text[REDCO_RECOMPUTE_TEXT];
        if (mix.sets.sets[i] == REDCO_RECOMPUTE_NONE) { continue; }
        const char *const word = briefly(mix.sets.sets[i], candidate->half, text, sizeof text);
        const int added =
            none > 0 && layers + none == mix.all
                ? snprintf(buffer + used, size - used, "%s %llu/%llu", word, layers, (unsigned long long)mix.all)
                : snprintf(buffer + used, size - used, "%s%llu %s", used > 0 ? ", " : "", layers, word);
        used += added > 0 ? (size_t)added : 0;
    }
    return buffer;
}

/* "in full", "in their FFN", "in layernorm+mlp" */
static const char *way_of(redco_recompute set, bool half, char *buffer, size_t size)
{
    char text[REDCO_RECOMPUTE_TEXT];
    if (set == REDCO_RECOMPUTE_CORE_ATTN) { return "selectively"; }
    if (set == REDCO_RECOMPUTE_MLP) { return "in their FFN"; }
    (void)snprintf(buffer, size, "in %s", redco_recompute_text(set, half, text, sizeof text));
    return buffer;
}

static void print_recompute(const redco_model *model, const redco_candidate *candidate)
{
    const struct mix mix = mix_of(model, candidate);
    char text[REDCO_RECOMPUTE_TEXT + 3];
    if (mix.sets.count == 1) {
        const redco_recompute set = mix.sets.sets[0];
        (void)printf(", %s recomputation", set == REDCO_RECOMPUTE_NONE ? "no"
                                           : set == REDCO_RECOMPUTE_MLP
                                               ? "FFN"
                                               : redco_recompute_text(set, candidate->half, text, sizeof text));
        return;
    }
    for (uint32_t i = mix.sets.count; i-- > 0;) {
        const unsigned long long layers = mix.layers[i];
        if (mix.sets.sets[i] == REDCO_RECOMPUTE_NONE) { continue; }
        const char *const way = way_of(mix.sets.sets[i], candidate->half, text, sizeof text);
        if (i + 1 == mix.sets.count) {
            (void)printf(", recomputing %llu of %llu layers %s", layers, (unsigned long long)mix.all, way);
        } else {
            (void)printf(", %llu %s", layers, way);
        }
    }
}

/* "NVLink 200 GB/s, 4 x 200 Gb/s per node" */
static void network_text(const redco_machine *machine, char *buffer, size_t size)
{
    const size_t name_length = strcspn(machine->gpu.link, "0123456789-");
    int used = 0;
    if (machine->fabric == REDCO_FABRIC_PCIE || machine->scale_up_bytes_per_s <= 0.0) {
        used = snprintf(buffer, size, "PCIe %.4g GB/s", machine->peer_bytes_per_s / 1e9);
    } else {
        used = snprintf(buffer, size, "%.*s %.4g GB/s", (int)name_length, machine->gpu.link,
                        machine->scale_up_bytes_per_s / 1e9);
    }
    if (machine->nics_per_node > 0 && used > 0 && (size_t)used < size) {
        (void)snprintf(buffer + used, size - (size_t)used, ", %u " TIMES " %.4g Gb/s per node", machine->nics_per_node,
                       machine->nic_bytes_per_s * 8.0 / 1e9);
    }
}

const char *report_parameters(const redco_model *model, char *buffer, size_t size)
{
    char all[SHORT], met[SHORT];
    const uint64_t params = redco_model_params(model), active = redco_model_active_params(model);
    (void)format_large((double)params, all, sizeof all);
    if (redco_model_get_dims(model)->experts > 0) {
        (void)snprintf(buffer, size, "%s parameters, %s active", all, format_large((double)active, met, sizeof met));
    } else if (redco_model_get_dims(model)->adapter_rank > 0) {
        (void)snprintf(buffer, size, "%s parameters, %s trained", all,
                       format_large((double)redco_model_trained_params(model), met, sizeof met));
    } else {
        (void)snprintf(buffer, size, "%s parameters", all);
    }
    return buffer;
}

void report_header(const struct plan_args *args, const redco_inputs *inputs, const redco_candidate *one)
{
    char large[SHORT];
    char sequences[SHORT];
    const redco_workload *workload = &args->question.options.workload;
    const redco_machine *machine = &inputs->machine;
    char parameters[2 * SHORT];
    char model[4 * SHORT];
    char network[2 * SHORT];
    char where[6 * SHORT];
    char rates[4 * SHORT];
    char gpus[SHORT];
    const char *cluster = redco_cluster_name(inputs->cluster);
    network_text(machine, network, sizeof network);
    (void)snprintf(model, sizeof model, "%s, %s", redco_model_name(inputs->model),
                   report_parameters(inputs->model, parameters, sizeof parameters));
    if (args->question.size_count == 0) {
        (void)format_gpus(machine->nodes, machine->gpus_per_node, machine->whole_node_gpus, gpus, sizeof gpus);
        (void)snprintf(where, sizeof where, "%s, %s %s", cluster, gpus, machine->gpu.name);
    } else {
        (void)snprintf(where, sizeof where, "%s: %s", cluster, machine->gpu.name);
    }
    (void)snprintf(rates, sizeof rates, "%s" DOT "%s", network,
                   workload->engine.gemm_format != REDCO_GEMM_SAME
                       ? redco_gemm_format_words[workload->engine.gemm_format]
                       : redco_precision_words[workload->precision]);
    /* The number of GPUs stands on the first line unless names are too long for that. */
    const bool long_names = table_width(model) + 3 + table_width(where) > WIDEST_HEADER;
    const int used = table_width(where) + (long_names ? 0 : table_width(model) + 3);
    (void)printf("%s%s%s%s%s\n", model, long_names ? "\n" : DOT, where,
                 used + 2 + table_width(rates) > WIDEST_HEADER ? ",\n" : ", ", rates);
    if (report_of_examples(inputs)) {
        (void)printf("%s examples a step", format_count(workload->global_batch, sequences, sizeof sequences));
    } else {
        (void)printf("%s tokens a step: %s sequences " TIMES " %u",
                     format_large((double)workload->global_batch * workload->seq_len, large, sizeof large),
                     format_count(workload->global_batch, sequences, sizeof sequences), workload->seq_len);
    }
    if (one != NULL) {
        char of[SHORT] = "GPU";
        const uint64_t replica = (uint64_t)one->parallelism.tp * one->parallelism.cp * one->parallelism.pp;
        if (replica > 1) { (void)snprintf(of, sizeof of, "%llu GPUs", (unsigned long long)replica); }
        (void)printf(", %llu micro-%s of %u per %s", (unsigned long long)one->parallelism.micro_batches,
                     one->parallelism.micro_batches == 1 ? "batch" : "batches", one->parallelism.micro_batch, of);
        print_recompute(inputs->model, one);
    }
    (void)printf("\n\n");
}

const char *report_shards(const redco_candidate *candidate, size_t offset, char *buffer, size_t size)
{
    redco_mesh first;
    memcpy(&first, (const char *)&candidate->assignments[0].config.shards + offset, sizeof first);
    for (uint32_t i = 1; i < candidate->assignment_count; i++) {
        redco_mesh mesh;
        memcpy(&mesh, (const char *)&candidate->assignments[i].config.shards + offset, sizeof mesh);
        if (!redco_mesh_equal(mesh, first)) {
            (void)snprintf(buffer, size, "mixed");
            return buffer;
        }
    }
    return report_mesh(first, buffer, size);
}

const char *report_tokens(const redco_inputs *inputs, const redco_prediction *p, char *buffer, size_t size)
{
    char tokens[SHORT];
    char range[SHORT];
    const double band = redco_band_tokens(&inputs->calibration, p);
    (void)snprintf(
        buffer, size, "%s%s%s", format_count((uint64_t)(p->tokens_per_s_per_gpu + 0.5), tokens, sizeof tokens),
        band > 0.0 ? " \xc2\xb1 " : "", band > 0.0 ? format_count((uint64_t)(band + 0.5), range, sizeof range) : "");
    return buffer;
}

const char *report_stages(const redco_parallelism *parallelism, char *buffer, size_t size)
{
    const uint32_t chunks = redco_parallelism_chunks(parallelism);
    if (chunks > 1) {
        (void)snprintf(buffer, size, "%u" TIMES "%u", parallelism->pp, chunks);
    } else {
        (void)snprintf(buffer, size, "%u", parallelism->pp);
    }
    return buffer;
}

static void report_split(const redco_parallelism *parallelism)
{
    const redco_pipeline p = redco_parallelism_pipeline(parallelism);
    const uint32_t positions = redco_pipeline_positions(p.kind, p.stages, p.chunks);
    (void)printf("%-10s", "split");
    for (uint32_t i = 0; i < positions; i++) { (void)printf("%s%u", i > 0 ? "," : "", parallelism->split[i]); }
    (void)printf(" layers%s\n", p.kind == REDCO_PIPELINE_INTERLEAVED ? ", chunk after chunk" : "");
}

void report_schedule(const redco_parallelism *parallelism)
{
    const uint32_t chunks = redco_parallelism_chunks(parallelism);
    const redco_pipeline p = redco_parallelism_pipeline(parallelism);
    if (p.kind == REDCO_PIPELINE_INTERLEAVED && p.group != p.stages) {
        (void)printf("%-10s%u model chunks in each: interleaved 1F1B, %u micro-batches at a time\n", "stages", chunks,
                     p.group);
    } else if (p.kind == REDCO_PIPELINE_INTERLEAVED) {
        (void)printf("%-10s%u model chunks in each: interleaved 1F1B\n", "stages", chunks);
    } else if (parallelism->pp > 1 && p.kind != REDCO_PIPELINE_1F1B) {
        (void)printf("%-10spasses in the order of %s%s\n", "stages", redco_pipeline_words[p.kind],
                     p.kind == REDCO_PIPELINE_DUALPIPE ? ": parameters are there twice" : "");
    }
    if (parallelism->pp > 1 && parallelism->split != NULL) { report_split(parallelism); }
    if (parallelism->tp > 1 && parallelism->sequence_parallel) {
        (void)printf("%-10ssplit over the tensor-parallel ranks, too: sequence parallelism\n", "norms");
    }
}

const char *report_context(const redco_parallelism *parallelism, char *buffer, size_t size)
{
    if (parallelism->cp > 1) {
        (void)snprintf(buffer, size, "%u (%s)", parallelism->cp, redco_cp_type_words[parallelism->cp_type]);
    } else {
        (void)snprintf(buffer, size, "%u", parallelism->cp);
    }
    return buffer;
}

const char *report_experts(const redco_parallelism *parallelism, char *buffer, size_t size)
{
    (void)snprintf(buffer, size, "%u" TIMES "%u", redco_parallelism_ep(parallelism),
                   redco_parallelism_etp(parallelism));
    return buffer;
}

const char *report_degree_list(const redco_parallelism *parallelism, const char *is, const char *comma, char *buffer,
                               size_t size)
{
    char pp[SHORT] = "";
    char cp[SHORT] = "";
    char ep[SHORT] = "";
    char stages[32];
    if (parallelism->pp > 1) {
        (void)snprintf(pp, sizeof pp, "%spp%s%s", comma, is, report_stages(parallelism, stages, sizeof stages));
    }
    if (parallelism->cp > 1) {
        (void)snprintf(cp, sizeof cp, "%scp%s%s", comma, is, report_context(parallelism, stages, sizeof stages));
    }
    if (redco_parallelism_ep(parallelism) > 1) {
        (void)snprintf(ep, sizeof ep, "%sep%s%u%setp%s%u", comma, is, parallelism->ep, comma, is,
                       redco_parallelism_etp(parallelism));
    }
    (void)snprintf(buffer, size, "tp%s%u%s%s%s", is, parallelism->tp, pp, cp, ep);
    return buffer;
}

bool report_of_examples(const redco_inputs *inputs)
{
    return redco_model_graph_work(inputs->model) != NULL;
}

struct report_degrees report_no_degrees(const redco_inputs *inputs)
{
    return (struct report_degrees){.examples = report_of_examples(inputs),
                                   .mixture = redco_model_get_dims(inputs->model)->experts > 0};
}

/* @return whether experts lie on a grid of their own */
static bool own_grid(const redco_parallelism *p, bool mixture)
{
    return mixture && (redco_parallelism_ep(p) > 1 || redco_parallelism_etp(p) != p->tp);
}

struct report_degrees report_degrees_of(const redco_candidate *candidate, struct report_degrees seen)
{
    return (struct report_degrees){.examples = seen.examples,
                                   .pp = seen.pp || candidate->parallelism.pp > 1,
                                   .cp = seen.cp || candidate->parallelism.cp > 1,
                                   .mixture = seen.mixture,
                                   .ep = seen.ep || own_grid(&candidate->parallelism, seen.mixture)};
}
