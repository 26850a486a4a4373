#include "core/io/text/atomic_file.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dtfm;
using namespace dtfm::io;
namespace fs = std::filesystem;

namespace {

std::string content_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_CASE("a written file has its content and leaves no other file behind") {
  const TemporaryFolder folder;
  write_file_atomically(folder.path() / "plan.json", "one");
  CHECK(content_of(folder.path() / "plan.json") == "one");
  write_file_atomically(folder.path() / "plan.json", std::string(3'000'000, 'x'));
  CHECK(content_of(folder.path() / "plan.json") == std::string(3'000'000, 'x'));
  CHECK(folder.files() == 1);
}

TEST_CASE("a file written in parts appears only when it is complete") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "trace.json";
  write_file_atomically(path, "before");
  {
    AtomicFile file(path);
    file.write(std::string(200'000, 'a'));  // more than the write buffer holds
    file.write("b");
    CHECK(content_of(path) == "before");
    file.commit();
  }
  CHECK(content_of(path) == std::string(200'000, 'a') + "b");
  {
    AtomicFile file(path);
    file.write(std::string(200'000, 'c'));
  }
  CHECK(content_of(path) == std::string(200'000, 'a') + "b");
  CHECK(folder.files() == 1);
}

TEST_CASE("a file keeps the mode of the file it replaces or follows the umask") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "plan.json";
  const mode_t before = ::umask(027);
  write_file_atomically(file, "one");
  ::umask(before);
  CHECK((fs::status(file).permissions() & fs::perms::all) == static_cast<fs::perms>(0640));
  fs::permissions(file, static_cast<fs::perms>(0604));
  write_file_atomically(file, "two");
  CHECK((fs::status(file).permissions() & fs::perms::all) == static_cast<fs::perms>(0604));
}

TEST_CASE("writing through a symbolic link keeps the link") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "real");
  fs::create_symlink("real/plan.json", folder.path() / "link.json");
  write_file_atomically(folder.path() / "link.json", "through");
  CHECK(fs::is_symlink(folder.path() / "link.json"));
  CHECK(content_of(folder.path() / "real" / "plan.json") == "through");
  fs::create_symlink("loop", folder.path() / "loop");
  const std::string loop = (folder.path() / "loop").string();
  CHECK(error_message([&] { write_file_atomically(loop, "x"); }) ==
        loop + ": cannot write: too many levels of symbolic links");
}

TEST_CASE("a write error names the file and leaves nothing behind") {
  const TemporaryFolder folder;
  const std::string missing = (folder.path() / "missing" / "plan.json").string();
  const std::string expected = missing + ": cannot write: No such file or directory";
  CHECK(error_message([&] { check_writable(missing); }) == expected);
  CHECK(error_message([&] { write_file_atomically(missing, "x"); }) == expected);

  const std::string itself = folder.path().string();
  CHECK(error_message([&] { check_writable(itself); }) == itself + ": cannot write: it is a folder");
  CHECK(error_message([&] { check_writable(itself + "/"); }) == itself + "/: cannot write: it is a folder");
  CHECK(error_message([&] { check_writable(""); }) == "the name of the output file is empty");
  CHECK(folder.files() == 0);
}

TEST_CASE("a path that is not a regular file is written in place") {
  write_file_atomically("/dev/null", "x");
  check_writable("/dev/null");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK(error_message([] { write_file_atomically("/dev/full", "x"); }) ==
        "/dev/full: cannot write: No space left on device");

  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  check_writable(pipe);  // must not block waiting for a reader
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  write_file_atomically(pipe, "through");
  std::string received(16, ' ');
  received.resize(static_cast<std::size_t>(::read(reader, received.data(), received.size())));
  ::close(reader);
  CHECK(received == "through");
  CHECK(fs::is_fifo(pipe));
  CHECK(folder.files() == 1);
}

TEST_CASE("checking whether a file is writable leaves nothing behind") {
  const TemporaryFolder folder;
  check_writable(folder.path() / "plan.json");
  CHECK(folder.files() == 0);
}

TEST_CASE("a failed replacement leaves the old file and nothing else") {
  const TemporaryFolder folder;
  const std::string too_long = (folder.path() / std::string(300, 'n')).string();
  CHECK(error_message([&] { write_file_atomically(too_long, "x"); }) ==
        too_long + ": cannot write: File name too long");
  CHECK(folder.files() == 0);
}
