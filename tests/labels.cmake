# Labels of every test: one folder and one cost, given by name and library; configuring fails where one is missing.
# README.md says what the costs mean.
set(REDCO_FOLDERS topology traces costmodel planner executor tools house)

# Folders of tests that have no library; redco_unit_test() labels the rest. The first line that matches counts.
set(redco_folder_of
    house=^house[.]
    tools=^\(mutants|hostile-names|attack|after-a-step\)
    topology=^golden[.]topo-
    traces=^golden[.]\(validate-|gpu-data\)
    costmodel=^golden[.]\(sim|calibrate\)-
    planner=^golden[.]\(plan|rules|export|slurm\)-
    planner=^corpus[.]\(trainer_|run_log\)
    executor=^golden[.]\(exec|profile|netns\)-
    tools=^golden[.]\(plot-|names-shown|paths-shown|option-numbers\)
    topology=^corpus[.]\(units|json|hostlist|slurm|matrix|cluster|nccl_xml|node_json|gpu_json\)$
    traces=^corpus[.]\(measured|trace|profile_csv|profile_json|nccl_log\)$
    costmodel=^corpus[.]\(calibration|engine|saving|model_config|compute_profile|params_json|safetensors|trace_load\)$
    planner=^corpus[.]\(plan|rules_file|run_phases|run_values\)$
    executor=^corpus[.]\(tokens|weights|language_model|checkpoint|npy|records|metrics\)$
    executor=^\(exec-|parity|netns|host-acceptance|gpu-acceptance|gpu[.]|test_communicator_mpi|test_shim\))

# Deep: over 5 s on an idle machine, where a smaller quick test looks for the same, or no line of redco depends on it.
set(redco_deep
    [.]full$                # all of what the quick test of the same name does a part of
    ^parity$                # 37 s: every cell of the table; parity-quick has plans of two ranks
    ^parity-deferred$       # 12 s: the same on queues that run later
    ^gpu-acceptance$        # 20 s: the script; the tools and tests that it starts are tested on their own
    ^netns$                 # 30 s: waits for what it has killed
    ^exec-mpi$              # 20 s: waits for ranks that hang; exec-checkpoint has them without mpirun
    ^house.recipes$         # 30 s: builds a copy of the tree
    ^house.slurm$           # 16 s: starts a real Slurm; export-sbatch has the script's lines
    ^test_dnn_engines_real$) # 6 s, where cuDNN is installed: that the mock library is like it

# Repeated by the quick tier under sanitizers: readers, bad input, the graph, the partition, the states.
set(redco_sanitized
    ^corpus[.]
    ^golden[.].*\(error|hostile\)
    ^test_\(base|plan|hostlist|slurm|matrix|cluster|node|gpu|machines|recorded|foreign_xml|measured|trace|trace_load|profile|compute_profile|engine\)$
    ^test_\(nccl_model|model|model_dense|model_uses|safetensors|rules_user|data|models|export\)$
    ^test_\(host|graph|graph_gradients|graph_random|graph_training|kernels|arena|lifetimes|optimizer\)$
    ^test_\(partition.*|states.*|checkpoint\)$)

# The deep tier repeats the quick tests under sanitizers, without those that show a sanitizer no line
# of redco that others do not show it (README.md, "Under sanitizers"):
set(redco_unsanitized
    # the tree is read, not run
    ^house[.]\(ceilings|circles|completion|constants|exported-names|folders|golden-runner|headers-c|headers-c[+][+]|man-pages|named-files|names|needed|pages|question|type-names\)$
    # redco-plan and redco-validate on many rows of tables; the golden cases plan-* and validate-* and
    # test_row_* have their lines
    ^house.\(famous|field|presets|relations|row-commands|schemas\)$
    # every option of every tool with bad numbers, a search of all degrees: the same lines hundreds of
    # times; golden cases of bad input, test_search and test_search_models have them
    ^golden.option-numbers$ ^test_search_degrees$
    # tables of memory and of names over all families, whose plans test_recompute, test_fuse_random,
    # test_models, test_trainer and exec-parity make and run
    ^test_memory_predicted$ ^test_fuse_models$ ^exec-\(binds|memory\)$
    # numbers, not memory: kernels are the mock driver's, which is not sanitized; host calls are those
    # of test_*_on_cuda
    ^test_cuda_kernels_rows$
    # two ranks with graphs and without, as parity-cuda-fuse-on and parity-cuda-graphs-off-1 are; by
    # the tool: exec-nccl
    ^parity-cuda-\(fuse-off|graphs-on-1|graphs-on-2|graphs-off-2\)$
    ^exec-\(cuda-train|share-gpu\)$
    # the meter of redco-profile --backend cuda, which test_cuda_measure and test_sustained run
    ^exec-profile-power$)
# and with those deep tests whose kind of memory fault no quick test could show: queues that run
# later, ranks that hang or are joined by MPI, where PMIx is.
set(redco_deep_sanitized ^parity-deferred$ ^exec-mpi$ ^house.slurm$)

add_custom_target(redco_sanitized COMMENT "Programs of tests with the label sanitized")
add_dependencies(redco_sanitized redco_tools)

# redco_matches(out name pattern...): whether a pattern matches.
function(redco_matches out name)
  set(${out} OFF PARENT_SCOPE)
  foreach(pattern ${ARGN})
    if(name MATCHES "${pattern}")
      set(${out} ON PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# redco_label_tests(): labels the tests of the calling folder, all of which must be there.
function(redco_label_tests)
  list(JOIN REDCO_FOLDERS "|" folders)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test ${tests})
    get_property(labels TEST ${test} PROPERTY LABELS)
    set(folder ${labels})
    list(FILTER folder INCLUDE REGEX "^(${folders})$")
    foreach(rule ${redco_folder_of})
      string(REGEX MATCH "^([a-z]+)=(.*)$" rule "${rule}")
      if(NOT folder AND test MATCHES "${CMAKE_MATCH_2}")
        string(REGEX REPLACE "=.*" "" folder "${rule}")
        list(APPEND labels ${folder})
      endif()
    endforeach()
    list(LENGTH folder count)
    if(NOT count EQUAL 1)
      message(FATAL_ERROR "tests/labels.cmake: the test ${test} is in ${count} folders (${folder}), not in one")
    endif()

    redco_matches(deep ${test} ${redco_deep})
    redco_matches(sanitized ${test} ${redco_sanitized})
    redco_matches(unsanitized ${test} ${redco_unsanitized})
    redco_matches(deep_sanitized ${test} ${redco_deep_sanitized})
    if(test MATCHES "^golden[.](.*)" AND EXISTS ${CMAKE_SOURCE_DIR}/tests/golden/${CMAKE_MATCH_1}/exit)
      set(sanitized ON)
    endif()
    if(test MATCHES "^gpu[.]")
      list(APPEND labels gpu)
    elseif(deep)
      list(APPEND labels deep)
      if(deep_sanitized)
        list(APPEND labels repeated)
      endif()
    else()
      list(APPEND labels quick)
      if(NOT unsanitized)
        list(APPEND labels repeated)
      endif()
      if(sanitized)
        list(APPEND labels sanitized)
        string(REPLACE "corpus." "fuzz_" program ${test})
        if(TARGET ${program})
          add_dependencies(redco_sanitized ${program})
        endif()
      endif()
    endif()
    set_property(TEST ${test} PROPERTY LABELS ${labels})
  endforeach()
endfunction()
