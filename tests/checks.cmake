# Golden cases: every folder tests/golden/CASE with a file cmd (see golden.sh). Exit code 77 = skipped, with the reason.
file(GLOB cases CONFIGURE_DEPENDS golden/*/cmd)
foreach(cmd ${cases})
  get_filename_component(case_dir ${cmd} DIRECTORY)
  get_filename_component(case_name ${case_dir} NAME)
  add_test(NAME golden.${case_name}
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/golden.sh ${CMAKE_BINARY_DIR}/tools ${case_dir})
  set_tests_properties(golden.${case_name} PROPERTIES LABELS golden SKIP_RETURN_CODE 77)
endforeach()

# Checks of the house itself; each is a script that prints what is wrong.
add_test(NAME house.golden-runner COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/golden-selftest.sh)
add_test(NAME house.folders COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/folders.sh)
add_test(NAME house.circles COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/circles.sh ${CMAKE_BINARY_DIR})
add_test(NAME house.names COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/names.sh)
add_test(NAME house.type-names COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/type-names.sh)
add_test(NAME house.named-files COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/named-files.sh)
add_test(NAME house.question COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/question.sh)
add_test(NAME house.constants COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/constants.sh)
add_test(NAME house.headers-c
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/headers.sh ${CMAKE_C_COMPILER} -std=c11 -x c)
add_test(NAME house.headers-c++
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/headers.sh g++ -std=c++17 -x c++ -- ${REDCO_PUBLIC_HEADERS})
if(REDCO_HAVE_CUDA)
  list(TRANSFORM REDCO_CUDA_INCLUDES PREPEND "-isystem " OUTPUT_VARIABLE cuda_flags)
  list(JOIN cuda_flags " " cuda_flags)
  set_tests_properties(house.headers-c PROPERTIES ENVIRONMENT "REDCO_CUDA_FLAGS=${cuda_flags}")
endif()
add_test(NAME house.needed COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/needed.sh ${CMAKE_BINARY_DIR}/tools)
add_test(NAME house.exported-names COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exports.sh ${CMAKE_NM} $<TARGET_FILE:redco>)
add_test(NAME house.install
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install/run.sh ${CMAKE_BINARY_DIR} ${CMAKE_C_COMPILER}
                 "$<$<BOOL:${REDCO_SANITIZE}>:-fsanitize=address,undefined>")
add_test(NAME house.schemas COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/schemas.sh ${CMAKE_BINARY_DIR}/tools quick)
add_test(NAME house.schemas.full COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/schemas.sh ${CMAKE_BINARY_DIR}/tools full)
add_test(NAME house.man-pages COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/man.sh ${CMAKE_BINARY_DIR}/tools)
add_test(NAME house.completion COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/completion.sh ${CMAKE_BINARY_DIR}/tools)
add_test(NAME house.row-commands COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/row-commands.sh ${CMAKE_BINARY_DIR}/tools)
add_test(NAME house.famous COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/famous.sh ${CMAKE_BINARY_DIR}/tools)
add_test(NAME house.famous.full COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/famous.sh ${CMAKE_BINARY_DIR}/tools 0)
add_test(NAME house.readme COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/readme.sh ${CMAKE_BINARY_DIR}/tools)
add_test(NAME house.pages COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/pages.sh ${CMAKE_BINARY_DIR}/tools)
add_test(NAME house.ceilings COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ceilings.sh)
add_test(NAME house.recipes COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/recipes.sh)
add_test(NAME house.full-disk COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/full-disk.sh ${CMAKE_BINARY_DIR}/tools ${CMAKE_BINARY_DIR}/pipelines)
if(REDCO_SANITIZE)
  add_library(keep_modules MODULE ${CMAKE_CURRENT_SOURCE_DIR}/keep_modules.c)
endif()
add_test(NAME house.slurm COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/slurm.sh ${CMAKE_BINARY_DIR}/tools ${CMAKE_BINARY_DIR}/pipelines
                                  $<$<TARGET_EXISTS:keep_modules>:$<TARGET_FILE:keep_modules>> COMMAND_EXPAND_LISTS)
add_test(NAME house.relations COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/shared-relations.sh ${CMAKE_BINARY_DIR}/tools)
add_test(NAME house.field COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/field.py --tools ${CMAKE_BINARY_DIR}/tools --field ${CMAKE_SOURCE_DIR}/../shared/field)
add_test(NAME house.consistency.full
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/consistency --tools ${CMAKE_BINARY_DIR}/tools --questions 500)
set_tests_properties(house.consistency.full PROPERTIES LABELS house)
set_tests_properties(house.ceilings house.relations house.field house.row-commands house.famous house.famous.full house.readme house.pages house.full-disk house.slurm house.man-pages house.completion house.constants house.question house.golden-runner house.folders house.circles house.names house.type-names house.named-files house.headers-c house.headers-c++ house.needed house.exported-names house.install house.schemas house.schemas.full house.recipes
                     PROPERTIES LABELS house SKIP_RETURN_CODE 77)
