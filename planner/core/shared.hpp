// A large value that copies share.
#pragma once

#include <memory>
#include <utility>

namespace dtfm {

/// A value that is read as through a pointer, and of which a copy costs no more than one. Copies are
/// independent all the same: `edit` changes the value of this one alone.
template <class T>
class Shared {
 public:
  Shared() : value_(std::make_shared<T>()) {}
  Shared(T value) : value_(std::make_shared<T>(std::move(value))) {}

  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  operator const T&() const { return *value_; }

  /// Copies the value if others share it. The reference is valid until this is copied, assigned or destroyed.
  T& edit() {
    if (value_.use_count() > 1) value_ = std::make_shared<T>(*value_);
    return *value_;
  }

 private:
  std::shared_ptr<T> value_;
};

}  // namespace dtfm
