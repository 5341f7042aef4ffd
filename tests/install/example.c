/* A planner of one's own:  cc example.c $(pkg-config --cflags --libs redco) */
#include <redco.h>

#include <stdio.h>

int main(void)
{
    redco_error err = {0};
    redco_cluster *cluster = NULL;
    redco_model *model = NULL;
    redco_comm *comm = NULL;
    redco_search_result *result = NULL;
    redco_machine machine;
    redco_calibration calibration;
    const redco_search_options options = {
        .workload = {.seq_len = 4096, .global_batch = 1024, .overlap = REDCO_OVERLAP_ALL, .bucket_bytes = 1u << 30},
        .recompute = REDCO_RECOMPUTE_COUNT,
        .top = 1,
        .gap_ratio = 0.0005};
    redco_status st = redco_cluster_read("dgx-h100", NULL, NULL, NULL, &cluster, &err);
    if (st == REDCO_OK) { st = redco_cluster_machine(cluster, 64, &machine, &err); }
    if (st == REDCO_OK) { st = redco_model_read("llama-3-8b", &model, &err); }
    if (st == REDCO_OK) { st = redco_calibration_read(NULL, &machine, &calibration, &err); }
    if (st == REDCO_OK) { st = redco_comm_create(&machine, NULL, 0, &comm, &err); }
    if (st == REDCO_OK) { st = redco_search(&machine, model, &calibration, comm, &options, &result, &err); }
    if (st != REDCO_OK) {
        (void)fprintf(stderr, "%s: %s\n", err.place, err.text);
    } else if (result->ranked_count == 0) {
        (void)printf("nothing fits: %s\n", result->shortfall.cheapest_change);
    } else {
        const redco_candidate *best = &result->ranked[0];
        (void)printf("%s on %s: tp %u, %.3g s a step, %.0f tokens/s/GPU\n", redco_model_name(model), machine.name,
                     best->setting.tp, best->prediction.step_s, best->prediction.tokens_per_s_per_gpu);
    }
    redco_search_result_free(result);
    redco_comm_free(comm);
    redco_model_free(model);
    redco_cluster_free(cluster);
    return st == REDCO_OK ? 0 : 1;
}
