# dtfm_embed_text(TARGET NAMESPACE SYMBOL FILE): compiles the text of FILE into TARGET as `extern const
# std::string_view NAMESPACE::SYMBOL`. FILE is relative to the project, or an absolute path if it is generated
# at configure time. A change of FILE triggers a reconfiguration.
function(dtfm_embed_text target namespace symbol file)
  cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE path)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
  file(READ ${path} text)
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/embedded_text.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp @ONLY)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp)
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings)
  target_sources(${target} PRIVATE ${source})
endfunction()
