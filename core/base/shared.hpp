// A large value that copies share.
#pragma once

#include <memory>
#include <utility>

namespace dtfm {

/// A copy-on-write value: copies share it until one of them is edited. It is read as through a pointer. After
/// a move, it may only be assigned or destroyed.
template <class T>
class Shared {
 public:
  Shared() : value_(std::make_shared<T>()) {}
  Shared(T value) : value_(std::make_shared<T>(std::move(value))) {}

  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  operator const T&() const { return *value_; }

  /// Returns the value for modification, after copying it if it is shared. Must not run while another thread
  /// copies or destroys a Shared with the same value. Copies of this that are made later share what the
  /// reference changes.
  T& edit() {
    if (value_.use_count() > 1) value_ = std::make_shared<T>(*value_);
    return *value_;
  }

 private:
  std::shared_ptr<T> value_;
};

}  // namespace dtfm
