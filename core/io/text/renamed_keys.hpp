// Keys of input files that have new names. An old name is an error that gives the new one.
#pragma once

#include <string_view>

namespace dtfm::io {

/// The new name of `key` in a map that is itself the value of `parent`. Empty if the key was not renamed.
std::string_view renamed_key(std::string_view parent, std::string_view key);

}  // namespace dtfm::io
