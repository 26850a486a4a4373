#include "cli/documents/documents.hpp"

#include <string>
#include <utility>

#include "core/io/text/atomic_file.hpp"

namespace dtfm::cli {

void write_documents(std::span<const CommandDescription> programs, const std::filesystem::path& folder) {
  for (const CommandDescription& program : programs) {
    const std::pair<std::filesystem::path, std::string> files[] = {
        {folder / "man" / (program.name + ".1"), manual_page(program, programs)},
        {folder / "bash" / program.name, bash_completion(program)}};
    for (const auto& [file, text] : files) {
      std::filesystem::create_directories(file.parent_path());
      io::write_file_atomically(file, text);
    }
  }
}

}  // namespace dtfm::cli
