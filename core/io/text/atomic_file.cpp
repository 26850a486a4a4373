#include "core/io/text/atomic_file.hpp"

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace dtfm::io {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t buffer_size = std::size_t{1} << 16;

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw Error(path.string(), "cannot write: " + reason);
}

[[noreturn]] void fail_with_errno(const fs::path& path) {
  fail(path, std::strerror(errno));
}

/// Follows symbolic links, because renaming over a link would replace the link and not its target.
fs::path resolve_symlinks(const fs::path& path) {
  std::error_code error;
  fs::path target = path;
  for (int followed_links = 0; fs::is_symlink(target, error); ++followed_links) {
    if (followed_links == 40) fail(path, "too many levels of symbolic links");
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  return target;
}

/// Status of the file at `path`, following links; nullopt if there is none.
std::optional<struct stat> stat_path(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return status;
  if (errno != ENOENT) fail_with_errno(path);
  return std::nullopt;
}

/// Character devices never count: a terminal or /dev/null may be open for other purposes, too.
bool is_stdout_file(const struct stat& status) {
  struct stat stdout_status {};
  return !S_ISCHR(status.st_mode) && ::fstat(STDOUT_FILENO, &stdout_status) == 0 &&
         stdout_status.st_dev == status.st_dev && stdout_status.st_ino == status.st_ino;
}

void check_kind(const fs::path& path, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) fail(path, "it is a folder");
  if (S_ISBLK(status.st_mode)) fail(path, "it is a block device");
}

void write_all(int file, std::string_view content, const fs::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno(path);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

/// Makes the new name survive a power failure. Errors are ignored: some file systems do not support this, and
/// the file is complete in any case.
void sync_folder(const fs::path& target) {
  const int file = ::open(folder_of(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

}  // namespace

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  virtual ~OutputFile() = default;
  virtual void write(std::string_view content) = 0;
  virtual void commit() = 0;
};

namespace {

/// A new file in the target's folder. The destructor removes it unless `commit` has renamed it to the target.
class TemporaryFile : public OutputFile {
 public:
  TemporaryFile(const fs::path& path, const fs::path& target) : path_(path), target_(target) {
    for (int attempt = 0; file_ < 0; ++attempt) {
      name_ = folder_of(target_) / fmt::format(".dtfm-{}-{}.tmp", ::getpid(), attempt);
      file_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (file_ < 0 && (errno != EEXIST || attempt == 100)) fail_with_errno(path_);
    }
  }
  ~TemporaryFile() override {
    if (file_ >= 0) ::close(file_);
    if (!renamed_) ::unlink(name_.c_str());
  }

  void set_mode(mode_t mode) {
    if (::fchmod(file_, mode) != 0) fail_with_errno(path_);
  }
  void write(std::string_view content) override { write_all(file_, content, path_); }

  void commit() override {
    const bool durable = ::fsync(file_) == 0;
    const int sync_error = errno;
    if (!durable && sync_error != EINVAL) fail(path_, std::strerror(sync_error));
    const int closed = ::close(std::exchange(file_, -1));
    if (closed != 0 || ::rename(name_.c_str(), target_.c_str()) != 0) fail_with_errno(path_);
    renamed_ = true;
    sync_folder(target_);
  }

 private:
  fs::path path_, target_, name_;
  int file_ = -1;
  bool renamed_ = false;
};

/// Writes into what exists at the path (a pipe, a terminal, stdout) instead of replacing it.
class InPlaceFile : public OutputFile {
 public:
  InPlaceFile(const fs::path& path, bool is_stdout)
      : path_(is_stdout ? "stdout" : path),
        file_(is_stdout ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                        : ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC)) {
    if (file_ < 0) fail_with_errno(path_);
  }
  ~InPlaceFile() override {
    if (file_ >= 0) ::close(file_);
  }

  void write(std::string_view content) override { write_all(file_, content, path_); }
  void commit() override {
    if (::close(std::exchange(file_, -1)) != 0) fail_with_errno(path_);
  }

 private:
  fs::path path_;
  int file_;
};

std::unique_ptr<OutputFile> open_output(const fs::path& path) {
  if (path.empty()) throw Error("", "the name of the output file is empty");
  if (is_stdout(path)) return std::make_unique<InPlaceFile>(path, true);
  if (!path.has_filename()) fail(path, "it is a folder");
  const fs::path target = resolve_symlinks(path);
  const auto status = stat_path(path);
  if (status) check_kind(path, *status);
  if (status && !S_ISREG(status->st_mode)) return std::make_unique<InPlaceFile>(path, false);
  auto file = std::make_unique<TemporaryFile>(path, target);
  if (status) file->set_mode(status->st_mode & 07777);
  return file;
}

}  // namespace

bool is_stdout(const fs::path& path) {
  struct stat status {};
  return path == "-" || path == "/dev/stdout" ||
         (::stat(path.c_str(), &status) == 0 && is_stdout_file(status));
}

AtomicFile::AtomicFile(const fs::path& path) : file_(open_output(path)) {}
AtomicFile::AtomicFile(AtomicFile&&) noexcept = default;
AtomicFile::~AtomicFile() = default;

void AtomicFile::write(std::string_view part) {
  buffer_ += part;
  if (buffer_.size() < buffer_size) return;
  file_->write(buffer_);
  buffer_.clear();
}

void AtomicFile::commit() {
  file_->write(std::exchange(buffer_, {}));
  file_->commit();
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

void check_writable(const fs::path& path) {
  struct stat status {};
  // Opening a pipe would block until it has a reader.
  if (!is_stdout(path) && ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode)) {
    if (::access(path.c_str(), W_OK) != 0) fail_with_errno(path);
  } else {
    open_output(path);
  }
}

}  // namespace dtfm::io
