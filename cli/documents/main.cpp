// dtfm-documents FOLDER: writes manual pages and shell completions of all programs, for `cmake --install`.
#include "cli/common/main_guard.hpp"
#include "cli/documents/documents.hpp"
#include "cli/documents/programs.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_guarded("dtfm-documents", [&] {
    if (argc != 2) throw dtfm::Error("", "usage: dtfm-documents FOLDER");
    dtfm::cli::write_documents(dtfm::cli::programs(), argv[1]);
    return dtfm::cli::exit_code::done;
  });
}
