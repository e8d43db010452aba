// SPDX-License-Identifier: Apache-2.0
#include "client/value_pool.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <string>
#include <utility>

namespace larder {

Value::Value(Value&& other) noexcept
    : pool_(std::move(other.pool_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

Value& Value::operator=(Value&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

Value::~Value() {
  if (pool_) pool_->give_back(data_, capacity_);
}

}  // namespace larder

namespace larder::client {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2 << 20;

}  // namespace

ValuePool::~ValuePool() {
  for (auto& kept : kept_) {
    for (std::byte* memory : kept) std::free(memory);
  }
}

std::byte* ValuePool::allocate(std::size_t capacity) noexcept {
  const std::size_t alignment = capacity >= kHugePage ? kHugePage : kPage;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, capacity));
  if (memory != nullptr && capacity >= kHugePage) ::madvise(memory, capacity, MADV_HUGEPAGE);
  return memory;
}

Result<Value> ValuePool::take(std::size_t bytes) {
  const std::size_t capacity = std::bit_ceil(bytes < kPage ? kPage : bytes);
  const auto size_class = static_cast<std::size_t>(std::countr_zero(capacity));
  if (size_class >= kClasses) return fail(Code::kTooLarge, "a value has at most 4 GiB");
  Value value;
  {
    const std::lock_guard lock(mutex_);
    auto& kept = kept_[size_class];
    if (!kept.empty()) {
      value.data_ = kept.back();
      kept.pop_back();
      kept_bytes_ -= capacity;
    }
  }
  if (value.data_ == nullptr) value.data_ = allocate(capacity);
  if (value.data_ == nullptr) {
    return fail(Code::kExhausted, "no memory for a value of " + std::to_string(bytes) + " bytes");
  }
  value.pool_ = shared_from_this();
  value.size_ = bytes;
  value.capacity_ = capacity;
  return value;
}

void ValuePool::give_back(std::byte* memory, std::size_t capacity) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + capacity <= kKeptBytesMax) {
      kept_[static_cast<std::size_t>(std::countr_zero(capacity))].push_back(memory);
      kept_bytes_ += capacity;
      return;
    }
  }
  std::free(memory);
}

}  // namespace larder::client
