#include "kernels/bench/profile_file.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "kernels/platform/device.hpp"
#include "kernels/profile.hpp"

namespace dtfm::kernels {
namespace {

/// Returns `text` in lower case, with every character that cannot be part of a name replaced by a dash.
std::string file_name(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    c = std::isalnum(byte) || c == '.' ? static_cast<char>(std::tolower(byte)) : '-';
  }
  return text + ".json";
}

void write_whole(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::path draft = file;
  draft += ".part";
  std::ofstream stream(draft, std::ios::binary);
  stream << text << std::flush;
  if (!stream) throw std::runtime_error("cannot write " + draft.string());
  stream.close();
  std::filesystem::rename(draft, file);
}

}  // namespace

void write_profile(const ProfileTarget& target, const NamedShape& model, int runs) {
  const std::string gpu = target.gpu.empty() ? short_name(device_identity().name) : target.gpu;
  const std::string name(model.name);
  ProfileRequest request{gpu, name, model.shape, {1, 2, 4, 8}, {1}, runs, true};
  const std::string text = measured_profile(request);
  std::filesystem::create_directories(target.folder);
  const std::filesystem::path file = std::filesystem::path(target.folder) / file_name(gpu + "-" + name);
  write_whole(file, text);
  std::printf("\nprofile of %s: %s\n", name.c_str(), file.string().c_str());
}

}  // namespace dtfm::kernels
