// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace larder {

namespace client {
class ValuePool;
}

// The bytes of one object, owned. Its memory comes from the client's pool and goes back there, so
// that a steady stream of gets neither clears memory nor takes page faults. Movable, not copyable;
// may outlive the client.
class Value {
 public:
  Value() = default;
  Value(Value&& other) noexcept;
  Value& operator=(Value&& other) noexcept;
  ~Value();

  const std::byte* data() const noexcept { return data_; }
  std::byte* data() noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  std::span<std::byte> bytes() noexcept { return {data_, size_}; }

 private:
  friend class client::ValuePool;
  std::shared_ptr<client::ValuePool> pool_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace larder
