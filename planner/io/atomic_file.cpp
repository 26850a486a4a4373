#include "planner/io/atomic_file.hpp"

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "planner/core/error.hpp"

namespace dtfm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t buffer_size = std::size_t{1} << 16;

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw Error(path.string(), "cannot write: " + reason);
}

[[noreturn]] void fail_with_errno(const fs::path& path) {
  fail(path, std::strerror(errno));
}

/// The file behind symbolic links: renaming over a link would replace the link.
fs::path followed(const fs::path& path) {
  std::error_code error;
  fs::path target = path;
  for (int links = 0; fs::is_symlink(target, error); ++links) {
    if (links == 40) fail(path, "too many levels of symbolic links");
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  return target;
}

/// Mode of the regular file there; nothing when there is none. Anything else than a regular file is refused:
/// renaming over /dev/null would destroy it.
std::optional<mode_t> existing_mode(const fs::path& path, const fs::path& target) {
  struct stat status {};
  if (::stat(target.c_str(), &status) != 0) {
    if (errno == ENOENT) return std::nullopt;
    fail_with_errno(path);
  }
  if (S_ISDIR(status.st_mode)) fail(path, "it is a folder");
  if (!S_ISREG(status.st_mode)) fail(path, "it is not a regular file");
  return status.st_mode & 07777;
}

}  // namespace

/// A new file in the folder of the target; removed again unless renamed.
class FileBeside {
 public:
  FileBeside(const fs::path& path, const fs::path& target) : path_(path) {
    const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
    for (int attempt = 0; file_ < 0; ++attempt) {
      name_ = folder / fmt::format(".dtfm-{}-{}.tmp", ::getpid(), attempt);
      file_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (file_ < 0 && (errno != EEXIST || attempt == 100)) fail_with_errno(path_);
    }
  }
  FileBeside(const FileBeside&) = delete;
  FileBeside& operator=(const FileBeside&) = delete;
  ~FileBeside() {
    if (file_ >= 0) ::close(file_);
    if (!renamed_) ::unlink(name_.c_str());
  }

  void set_mode(mode_t mode) {
    if (::fchmod(file_, mode) != 0) fail_with_errno(path_);
  }

  void write(std::string_view content) {
    while (!content.empty()) {
      const ssize_t written = ::write(file_, content.data(), content.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_with_errno(path_);
      content.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void rename_to(const fs::path& target) {
    const bool durable = ::fsync(file_) == 0;
    const int sync_error = errno;
    if (!durable && sync_error != EINVAL) fail(path_, std::strerror(sync_error));
    const int closed = ::close(std::exchange(file_, -1));
    if (closed != 0 || ::rename(name_.c_str(), target.c_str()) != 0) fail_with_errno(path_);
    renamed_ = true;
  }

 private:
  fs::path path_, name_;
  int file_ = -1;
  bool renamed_ = false;
};

namespace {

/// The new name survives a power failure too. Some file systems cannot do this, and the file is whole anyway.
void sync_folder(const fs::path& target) {
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

fs::path checked_target(const fs::path& path) {
  if (path.empty()) throw Error("", "the name of the output file is empty");
  if (!path.has_filename()) fail(path, "it is a folder");
  return followed(path);
}

}  // namespace

WholeFile::WholeFile(const fs::path& path) : target_(checked_target(path)) {
  const auto mode = existing_mode(path, target_);
  file_ = std::make_unique<FileBeside>(path, target_);
  if (mode) file_->set_mode(*mode);
}

WholeFile::WholeFile(WholeFile&&) noexcept = default;
WholeFile::~WholeFile() = default;

void WholeFile::write(std::string_view part) {
  buffer_ += part;
  if (buffer_.size() < buffer_size) return;
  file_->write(buffer_);
  buffer_.clear();
}

void WholeFile::commit() {
  file_->write(std::exchange(buffer_, {}));
  file_->rename_to(target_);
  sync_folder(target_);
}

void write_whole_file(const fs::path& path, std::string_view content) {
  WholeFile file(path);
  file.write(content);
  file.commit();
}

void check_can_write(const fs::path& path) {
  const fs::path target = checked_target(path);
  existing_mode(path, target);
  FileBeside(path, target);
}

}  // namespace dtfm
