# What `cmake --install` puts in place beside the tools: one library, its headers with their paths, redco.pc, man pages.
# The library is made of the modules' objects; the executor is not in it, so that a planner's user needs no CUDA or MPI.
get_property(modules GLOBAL PROPERTY REDCO_MODULES)
add_library(redco STATIC)
set_target_properties(redco PROPERTIES LINKER_LANGUAGE C)
foreach(module ${modules})
  target_sources(redco PRIVATE $<TARGET_OBJECTS:${module}>)
endforeach()
install(TARGETS redco ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Public headers are redco.h and what it includes, directly or not. They include one another by their path from the
# project's root, so that path is kept below include/redco, which redco.pc puts on the include path; redco.h itself lies
# at its top.
set(REDCO_PUBLIC_HEADERS "")
set(reached planner/redco.h executor/pipeline/user_pipeline.h)
while(reached)
  list(POP_FRONT reached header)
  if(NOT header IN_LIST REDCO_PUBLIC_HEADERS)
    list(APPEND REDCO_PUBLIC_HEADERS ${header})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    file(STRINGS ${header} lines REGEX "^#include \"")
    list(TRANSFORM lines REPLACE "^#include \"(.*)\".*" "\\1")
    list(APPEND reached ${lines})
    get_filename_component(folder ${header} DIRECTORY)
    if(header STREQUAL planner/redco.h)
      set(folder .)
    endif()
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/redco/${folder})
  endif()
endwhile()

set(pc_folder ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH REDCO_PC_TO_PREFIX ${pc_folder} ${CMAKE_INSTALL_PREFIX})
configure_file(tools/redco.pc.in redco.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/redco.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

file(GLOB pages CONFIGURE_DEPENDS tools/man/*.1)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
