#include "kernels/profile.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "kernels/platform/device.hpp"

namespace dtfm::kernels {
namespace {

constexpr LayerKind kinds[] = {LayerKind::embedding, LayerKind::block, LayerKind::head};

const char* name_of(LayerKind kind) {
  constexpr const char* names[] = {"embedding", "block", "head"};
  return names[static_cast<int>(kind)];
}

std::string quoted(std::string_view text) {
  constexpr const char* digits = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      json += std::string("\\u00") + digits[byte / 16] + digits[byte % 16];
      continue;
    }
    if (c == '"' || c == '\\') json += '\\';
    json += c;
  }
  return json + '"';
}

/// Returns the shortest text that reads back as the same number.
std::string number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string joined(std::span<const std::string> parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

/// A JSON object that is built field by field.
class Object {
 public:
  void add(const std::string& key, const std::string& json) { fields_.push_back(quoted(key) + ": " + json); }
  void add(const std::string& key, double value) { add(key, number(value)); }
  std::string on_one_line() const { return text_of("{", ", ", "}"); }
  std::string on_lines() const { return text_of("{\n  ", ",\n  ", "\n}\n"); }

 private:
  std::string text_of(const char* begin, const char* separator, const char* end) const {
    return std::string(begin).append(joined(fields_, separator)).append(end);
  }
  std::vector<std::string> fields_;
};

std::string shape_json(const TransformerShape& s) {
  Object json;
  json.add("hidden", s.hidden);
  json.add("heads", s.heads);
  json.add("sequence", s.sequence);
  json.add("vocabulary", s.vocabulary);
  json.add("kv_heads", s.kv_heads);
  if (s.head_size > 0) json.add("head_dim", s.head_size);
  json.add("feed_forward", s.ffn);
  if (s.gated) json.add("gated", "true");
  if (s.rms) json.add("biases", "false");
  if (s.rms) json.add("norm", quoted("rms"));
  if (s.rotary) json.add("positions", quoted("rotary"));
  json.add("attention", quoted("flash"));
  return json.on_one_line();
}

std::string software_json(const DeviceIdentity& device) {
  const int version = device.cuda_runtime_version;
  Object json;
  if (version > 0)
    json.add("cuda", quoted(std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)));
  if (!device.driver_version.empty()) json.add("driver", quoted(device.driver_version));
  return json.on_one_line();
}

std::string row_json(const LayerTimes& row) {
  Object json;
  const auto add_times = [&](const std::string& what, double seconds, double spread) {
    json.add(what + "_s", seconds);
    // rows of kernels store the spread as a share of the median
    json.add(what + "_spread_s", seconds * spread);
  };
  json.add("kind", quoted(name_of(row.kind)));
  json.add("micro_batch", row.micro_batch);
  json.add("tensor", row.tensor_parallel);
  add_times("forward", row.forward_s, row.forward_spread);
  add_times("backward", row.backward_s, row.backward_spread);
  add_times("update", row.update_s, row.update_spread);
  json.add("activation_bytes", static_cast<double>(row.activation_bytes));
  json.add("peak_bytes", static_cast<double>(row.peak_bytes));
  return json.on_one_line();
}

std::string derivation_of(const ProfileRequest& request, const DeviceIdentity& device,
                          std::span<const LayerTimes> rows, std::span<const std::string> omitted) {
  std::string text = "medians of at least " + std::to_string(request.runs) + " runs on one " + device.name +
                     ", by the device's clock after warm-up, with layers in rotation; matrix products by the "
                     "vendor's library, attention without the matrix of scores, Adam with fp32 states";
  std::vector<DeviceState> states;
  for (const LayerTimes& row : rows) states.push_back(row.state);
  if (const std::string conditions = text_of(states); !conditions.empty())
    text += "; during the measurement: " + conditions;
  if (!omitted.empty()) text += "; not enough memory for " + joined(omitted, ", ");
  return text;
}

std::string name_of_row(LayerKind kind, int tensor, int micro_batch) {
  return name_of(kind) + std::string(" at micro-batch ") + std::to_string(micro_batch) +
         " and tensor degree " + std::to_string(tensor);
}

/// Measures the rows of a request one after the other.
class Measuring {
 public:
  explicit Measuring(const ProfileRequest& request) : request_(request), shape_(request.shape) {}

  std::string profile() {
    for (const LayerKind kind : kinds) {
      const std::size_t before = rows_.size();
      for (const int tensor : request_.tensor_degrees)
        for (const int micro_batch : request_.micro_batches) measure_row(kind, tensor, micro_batch);
      if (rows_.size() == before) throw OutOfMemory("not enough memory for " + omitted_.back());
    }
    return profile_json(request_, device_identity(), rows_, omitted_);
  }

 private:
  void measure_row(LayerKind kind, int tensor, int micro_batch) {
    const std::string what = name_of_row(kind, tensor, micro_batch);
    const std::size_t sizes =
        std::size(kinds) * request_.tensor_degrees.size() * request_.micro_batches.size();
    if (request_.on_progress)
      request_.on_progress(static_cast<double>(rows_.size() + omitted_.size()) / static_cast<double>(sizes),
                           what);
    shape_.tensor_parallel = tensor;
    shape_.batch = micro_batch;
    const Measurement got = measure(shape_, std::span(&kind, 1), request_.runs);
    if (got.error.empty())
      rows_.push_back(got.rows.front());
    else if (got.is_out_of_memory && request_.skips_out_of_memory)
      omitted_.push_back(what);
    else
      throw DeviceError("layer " + what + " cannot be measured: " + got.error);
  }

  const ProfileRequest& request_;
  TransformerShape shape_;
  std::vector<LayerTimes> rows_;
  std::vector<std::string> omitted_;
};

}  // namespace

std::string profile_json(const ProfileRequest& request, const DeviceIdentity& device,
                         std::span<const LayerTimes> rows, std::span<const std::string> omitted) {
  std::vector<std::string> layers;
  for (const LayerTimes& row : rows) layers.push_back(row_json(row));
  Object json;
  json.add("schema", quoted("dtfm-profile/1"));
  json.add("gpu", quoted(request.gpu));
  json.add("source", quoted("measured"));
  json.add("derivation", quoted(derivation_of(request, device, rows, omitted)));
  json.add("precision", quoted(name_of(request.shape.dtype)));
  json.add("model", quoted(request.model));
  json.add("shape", shape_json(request.shape));
  json.add("software", software_json(device));
  json.add("layers", "[\n    " + joined(layers, ",\n    ") + "\n  ]");
  return json.on_lines();
}

std::string measured_profile(const ProfileRequest& request) {
  return Measuring(request).profile();
}

std::string short_name(std::string device_name) {
  for (const std::string_view word : {"NVIDIA ", "Tesla ", "GeForce ", "Quadro "})
    if (device_name.starts_with(word)) device_name.erase(0, word.size());
  return device_name;
}

}  // namespace dtfm::kernels
