# Builds the report page without its data: the files of page/, d3 from npm, and the hashes of its Content-Security-Policy.
# dtfm_report_page(TARGET) compiles it into TARGET as `dtfm::report::report_page`, which is empty if npm is missing or fails;
# then --report is rejected.

set(report_folder ${CMAKE_CURRENT_LIST_DIR}/page)
# Concatenated in this order to one script.
set(report_scripts format colors dom tooltip labels device_rows summary sites layers timeline_data timeline_canvas timeline
    device_time memory search finalists runs path explanation comparison main)

# Sets the folder with d3, or nothing. d3 is installed in the build folder, and again when the lock file changes.
function(report_packages result)
  set(${result} "" PARENT_SCOPE)
  find_program(NPM npm)
  mark_as_advanced(NPM)
  if(NOT NPM)
    message(STATUS "npm: not found, so --report will not work (install the package npm, then configure again)")
    return()
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/report_packages)
  file(SHA256 ${report_folder}/package-lock.json lock)
  set(stamp ${folder}/installed-${lock})
  if(NOT EXISTS ${stamp})
    file(REMOVE_RECURSE ${folder})
    file(COPY ${report_folder}/package.json ${report_folder}/package-lock.json DESTINATION ${folder})
    execute_process(COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund --prefer-offline --fetch-retries=1
                            --fetch-retry-mintimeout=1000 --fetch-timeout=30000
                    WORKING_DIRECTORY ${folder} TIMEOUT 180 RESULT_VARIABLE failure OUTPUT_QUIET ERROR_VARIABLE why)
    if(failure)
      string(REGEX MATCH "npm (error|ERR!) [^\n]*" why "${why}")
      message(STATUS "npm: could not get d3 (${failure}: ${why}), so --report will not work; configure again to retry")
      return()
    endif()
    file(TOUCH ${stamp})
  endif()
  set(${result} ${folder}/node_modules/d3 PARENT_SCOPE)
endfunction()

# The SHA-256 digest of `text` in base64, for a Content-Security-Policy.
function(report_digest result text)
  set(alphabet ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  string(SHA256 hex "${text}")
  set(digest "")
  foreach(position RANGE 0 60 3) # three hexadecimal digits are two of base64
    string(SUBSTRING ${hex} ${position} 3 digits)
    math(EXPR high "0x${digits} / 64")
    math(EXPR low "0x${digits} % 64")
    string(SUBSTRING ${alphabet} ${high} 1 first)
    string(SUBSTRING ${alphabet} ${low} 1 second)
    string(APPEND digest ${first}${second})
  endforeach()
  string(SUBSTRING ${hex} 63 1 last)
  math(EXPR last "0x${last} * 4")
  string(SUBSTRING ${alphabet} ${last} 1 last)
  set(${result} "sha256-${digest}${last}=" PARENT_SCOPE)
endfunction()

# All scripts of page/ as one script, in its own scope.
function(report_script result)
  set(text "\n(() => {\n\"use strict\";\n")
  foreach(name IN LISTS report_scripts)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${report_folder}/${name}.js)
    file(READ ${report_folder}/${name}.js part)
    string(APPEND text "\n${part}")
  endforeach()
  set(${result} "${text}})();\n" PARENT_SCOPE)
endfunction()

function(dtfm_report_page target)
  report_packages(d3_folder)
  set(page ${CMAKE_CURRENT_BINARY_DIR}/report_page.html)
  file(WRITE ${page}.new "")
  if(d3_folder)
    file(READ ${d3_folder}/LICENSE licence)
    file(READ ${d3_folder}/dist/d3.min.js d3_script)
    string(PREPEND d3_script "\n/*\n${licence}*/\n")
    file(READ ${report_folder}/report.css style)
    report_script(page_script)
    report_digest(d3_digest "${d3_script}")
    report_digest(page_digest "${page_script}")
    report_digest(style_digest "${style}")
    configure_file(${report_folder}/report.html ${page}.new @ONLY NEWLINE_STYLE UNIX)
    install(FILES ${d3_folder}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME LICENSE.d3)
  endif()
  file(COPY_FILE ${page}.new ${page} ONLY_IF_DIFFERENT)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${report_folder}/report.html ${report_folder}/report.css ${report_folder}/package-lock.json)
  dtfm_embed_text(${target} dtfm::report report_page ${page})
endfunction()
