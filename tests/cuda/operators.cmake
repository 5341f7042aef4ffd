# What needs the stand-ins of all libraries that compute: kernels and training of the host's tests on a device, and
# redco-exec on one.
if(NOT TARGET standin_cublaslt OR NOT TARGET standin_dnn)
  return()
endif()
foreach(name test_kernels test_graph_training)
  redco_cuda_test(${name}_on_cuda redco_cuda redco_backend)
  target_compile_definitions(${name}_on_cuda PRIVATE LAB_CUDA REDCO_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
  target_sources(${name}_on_cuda PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit/graph_fixture.c)
endforeach()
add_test(NAME exec-cuda-train
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/exec-cuda-train.sh ${CMAKE_BINARY_DIR}/tools ${REDCO_STANDINS}
                 $<IF:$<BOOL:$<TARGET_NAME_IF_EXISTS:standin_nccl>>,2,1>)
