# Headers that most files include, compiled once: a first build takes a third less. Not with ccache, which does better.
option(DTFM_PRECOMPILE "Compile the headers that most files include once, where there is no ccache" OFF)

# dtfm_precompile(NAME LIBRARY... HEADERS HEADER...): a target whose precompiled headers others may use.
function(dtfm_precompile name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS")
  set(source ${PROJECT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE dtfm_options ${arg_UNPARSED_ARGUMENTS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

# Of all targets of a folder, and of those below it.
function(dtfm_use_precompiled name folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(STATIC_LIBRARY|EXECUTABLE)$")
      target_precompile_headers(${target} REUSE_FROM ${name})
    endif()
  endforeach()
endfunction()
