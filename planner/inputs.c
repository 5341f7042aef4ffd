#include "planner/inputs.h"

#include "costmodel/compute_profile.h"
#include "topology/base/json.h"
#include "topology/base/preset.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char default_model[] = "llama-7b";
static const char default_cluster[] = "a800-hdr";
static const char own_gpu_calibration[] = "cuda";
static const double most_contention_ratio = 0.95; /* as calibrations have it */

/* How a file begins. @return '{' for JSON, '<' for XML, 'a' for other text, 0 where that is the reader's to find out:
 * no file, an empty one, or a pipe, which can be read only once */
static char sniff(const char *path)
{
    char start[512];
    size_t at = 0;
    struct stat what;
    FILE *stream = fopen(path, "re");
    if (stream == NULL) { return 0; }
    const bool plain = fstat(fileno(stream), &what) == 0 && S_ISREG(what.st_mode);
    const size_t size = plain ? fread(start, 1, sizeof start, stream) : 0;
    (void)fclose(stream);
    while (at < size && isspace((unsigned char)start[at])) { at++; }
    if (at == size) { return 0; }
    if (start[at] == '<') { return '<'; }
    return start[at] == '{' || start[at] == '[' ? '{' : 'a';
}

/* Whether it is what redco-topo writes; what cannot be read at all is the cluster reader's to tell. */
static bool is_node_json(const char *path)
{
    redco_json *document = NULL;
    const char *format = "";
    if (redco_json_open(path, &document, NULL) != REDCO_OK) { return false; }
    const redco_json_value root = redco_json_root(document);
    const bool node =
        redco_json_string(&root, "format", &format, NULL) == REDCO_OK && strcmp(format, "redco-node") == 0;
    redco_json_close(document);
    return node;
}

/* What --cluster names: a preset or cluster file stays, XML and redco-topo's JSON are a node, anything else a
 * topology.conf. */
static redco_status tell_apart(redco_input_names *names, redco_error *err)
{
    if (names->cluster == NULL || redco_preset_find("clusters", names->cluster) != NULL) { return REDCO_OK; }
    const char kind = sniff(names->cluster);
    if (kind == 0 || (kind == '{' && !is_node_json(names->cluster))) { return REDCO_OK; }
    const bool node = kind != 'a';
    const char **replaced = node ? &names->node : &names->topology;
    if (*replaced != NULL) {
        return redco_fail(err, REDCO_EVALUE, names->cluster, "is %s, but one is given already",
                          node ? "a node" : "a topology.conf");
    }
    if (!node && names->node == NULL) {
        return redco_fail(
            err, REDCO_EVALUE, names->cluster,
            "is no cluster file; if it is a Slurm topology.conf, it tells nothing of the nodes: give it as "
            "--topology, beside --cluster or --node");
    }
    *replaced = names->cluster;
    names->cluster = NULL;
    return REDCO_OK;
}

/* Nobody named a calibration: what the profiles say of computation beside communication is taken for the assumed. */
static void take_contention(const redco_input_names *names, redco_inputs *inputs)
{
    redco_calibration *const c = &inputs->calibration;
    double contention_ratio = 0.0, overlap_ratio = 0.0;
    if (names->calibration != NULL ||
        !redco_compute_profile_contention(redco_comm_compute(inputs->comm), &contention_ratio, &overlap_ratio)) {
        return;
    }
    c->contention_ratio = fmin(contention_ratio, most_contention_ratio);
    c->overlap_window_ratio = fmin(overlap_ratio, 1.0);
}

/* Whether steps are those of redco-exec on GPUs: it was asked for, or a profile of its operators is given and nobody
 * said whose steps they are. */
static bool is_own_gpu_engine(const redco_input_names *names, const redco_inputs *inputs)
{
    const redco_profile_measured *const how = redco_compute_profile_how(redco_comm_compute(inputs->comm));
    if (names->calibration != NULL || redco_gpu_is_host(&inputs->machine.gpu)) { return false; }
    if (names->engine != NULL) { return strcmp(names->engine, redco_engine_words[REDCO_ENGINE_REDCO_EXEC]) == 0; }
    return how != NULL && strcmp(how->backend, "cuda") == 0;
}

/* What that engine's profile says of the device goes before what its calibration assumes. */
static redco_status take_own_gpu_engine(redco_inputs *inputs, redco_error *err)
{
    redco_calibration *const c = &inputs->calibration;
    const redco_profile_measured *const how = redco_compute_profile_how(redco_comm_compute(inputs->comm));
    const redco_status st = redco_calibration_read(own_gpu_calibration, &inputs->machine, c, err);
    if (st != REDCO_OK || how == NULL || strcmp(how->backend, "cuda") != 0) { return st; }
    if (how->reserve_bytes > 0) { c->reserve_bytes = (double)how->reserve_bytes; }
    c->host_forward_s = how->host_forward_s;
    c->host_backward_s = how->host_backward_s;
    return REDCO_OK;
}

redco_status redco_inputs_read(const redco_input_names *given, uint64_t gpus, redco_inputs *inputs_out,
                               redco_error *err)
{
    redco_input_names names = *given;
    redco_inputs inputs = {0};
    redco_status st = tell_apart(&names, err);
    if (st != REDCO_OK) { goto out; }
    if (names.cluster == NULL && names.node == NULL) { names.cluster = default_cluster; }
    if ((st = redco_model_read(names.model != NULL ? names.model : default_model, &inputs.model, err)) != REDCO_OK ||
        (st = redco_cluster_read(names.cluster, names.node, names.topology, names.hosts, &inputs.cluster, err)) !=
            REDCO_OK ||
        (st = redco_cluster_machine(inputs.cluster, gpus, &inputs.machine, err)) != REDCO_OK ||
        (st = redco_calibration_read(names.calibration, &inputs.machine, &inputs.calibration, err)) != REDCO_OK ||
        (st = redco_comm_create(&inputs.machine, names.profiles, names.profile_count, &inputs.comm, err)) != REDCO_OK) {
        goto out;
    }
    if (is_own_gpu_engine(&names, &inputs) && (st = take_own_gpu_engine(&inputs, err)) != REDCO_OK) { goto out; }
    take_contention(&names, &inputs);
    if (names.engine != NULL) {
        inputs.calibration.planned_memory = strcmp(names.engine, redco_engine_words[REDCO_ENGINE_REDCO_EXEC]) == 0;
    }
    if (names.safetensors != NULL &&
        (st = redco_model_check_safetensors(inputs.model, names.safetensors, err)) != REDCO_OK) {
        goto out;
    }
    if (names.tp_rules != NULL && (st = redco_user_rules_read(names.tp_rules, &inputs.tp_rules, err)) != REDCO_OK) {
        goto out;
    }
    *inputs_out = inputs;
    inputs = (redco_inputs){0};
out:
    redco_inputs_free(&inputs);
    return st;
}

redco_status redco_inputs_resize(redco_inputs *inputs, const redco_input_names *names, uint64_t gpus, redco_error *err)
{
    redco_machine machine;
    redco_comm *comm = NULL;
    redco_status st = redco_cluster_machine(inputs->cluster, gpus, &machine, err);
    if (st != REDCO_OK ||
        (st = redco_comm_create(&machine, names->profiles, names->profile_count, &comm, err)) != REDCO_OK) {
        return st;
    }
    redco_comm_free(inputs->comm);
    inputs->comm = comm;
    inputs->machine = machine;
    return REDCO_OK;
}
