// Reads from a config.json which blocks of a model have which modules.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/io/text/json_reader.hpp"
#include "core/model/transformer.hpp"

namespace dtfm::io {

/// Whether `read_block_kinds` reads this key.
bool is_block_key(const std::string& key);

/// The kind of every block of `model`, whose sizes have been read. `defaults` are those of the family for
/// missing keys. Throws Error at a value that is not supported or does not fit the number of layers.
std::vector<BlockKind> read_block_kinds(const JsonCursor& config, const nlohmann::json& defaults,
                                        const Transformer& model);

/// Number of layers of a model whose config.json only lists them; 0 if it does not.
int listed_layers(const JsonCursor& config, const nlohmann::json& defaults);

/// Removes what no block has, and the list of blocks if the model is uniform without it.
void reduce_blocks(Transformer& model);

}  // namespace dtfm::io
