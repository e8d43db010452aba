// SPDX-License-Identifier: Apache-2.0
// The public face: every call becomes an operation, run to its end or started.
#include "larder/client.h"

#include <charconv>
#include <utility>

#include "client/core.h"
#include "client/get_op.h"
#include "client/ops_devices.h"
#include "client/ops_meta.h"
#include "client/put_op.h"

namespace larder {

using client::ClientCore;

struct Client::Impl {
  // Shared with views and buffers, so that they may outlive the Client object in any order.
  std::shared_ptr<ClientCore> core;
};

namespace {

Result<void> check_batch(std::size_t items) {
  if (items <= kBatchItemsMax) return {};
  return fail(Code::kInvalidArgument, "a batch of " + std::to_string(items) + " items; at most " +
                                          std::to_string(kBatchItemsMax) + " fit one call");
}

template <class Op, class T>
Result<T> run(ClientCore& core, Op& op, std::size_t items, const CallOptions& options) {
  if (items == 0) return T{};
  LARDER_TRY(check_batch(items));
  LARDER_TRY(core.run(op, options));
  return std::move(op.result());
}

template <class T, class Op>
void start(ClientCore& core, std::unique_ptr<Op> op, std::size_t items, const CallOptions& options,
           Callback<T> done) {
  if (items == 0) return done(T{});
  if (const auto fits = check_batch(items); !fits) return done(fail(fits.error()));
  op->done = std::move(done);
  core.start(std::move(op), options);
}

template <class T>
std::pair<std::future<Result<T>>, Callback<T>> promise_of() {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  return {promise->get_future(),
          [promise](Result<T> result) { promise->set_value(std::move(result)); }};
}

template <class Item>
std::vector<Item> copy_of(std::span<const Item> items) {
  return {items.begin(), items.end()};
}

// The single-key form of a per-item result.
template <class R>
Result<R> only(Result<std::vector<R>> results) {
  if (!results) return fail(results.error());
  R result = std::move(results->front());
  if (result.code != Code::kOk) return fail(result.code, std::move(result.message));
  return result;
}

Error with_key(const Error& error, std::string_view key) {
  if (!error.message().empty()) return error;
  return {error.code(), "key '" + std::string(key.substr(0, 64)) + "'"};
}

}  // namespace

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::connect(ClientOptions options) {
  LARDER_ASSIGN(std::unique_ptr<ClientCore> core, ClientCore::create(std::move(options)));
  auto impl = std::make_unique<Impl>();
  impl->core = std::move(core);
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Path Client::path() const noexcept {
  return impl_->core->path();
}

std::string Client::metrics() const {
  return impl_->core->transfers().registry().text();
}

// ---- batches ----

Result<std::vector<PutResult>> Client::put(std::span<const PutItem> items,
                                           const PutOptions& options) {
  client::PutOp op(*impl_->core, copy_of(items), options.mode);
  return run<client::PutOp, std::vector<PutResult>>(*impl_->core, op, items.size(), options);
}

Result<std::vector<GetResult>> Client::get_into(std::span<const GetItem> items,
                                                const CallOptions& options) {
  client::GetOp op(*impl_->core, copy_of(items));
  return run<client::GetOp, std::vector<GetResult>>(*impl_->core, op, items.size(), options);
}

Result<std::vector<bool>> Client::exists(std::span<const std::string_view> keys,
                                         const CallOptions& options) {
  client::ExistsOp op(*impl_->core, keys);
  return run<client::ExistsOp, std::vector<bool>>(*impl_->core, op, keys.size(), options);
}

Result<PrefixMatch> Client::match_prefix(std::span<const std::string_view> keys,
                                         const CallOptions& options) {
  client::MatchOp op(*impl_->core, keys);
  return run<client::MatchOp, PrefixMatch>(*impl_->core, op, keys.size(), options);
}

Result<std::vector<RemoveResult>> Client::remove(std::span<const std::string_view> keys,
                                                 const CallOptions& options) {
  client::RemoveOp op(*impl_->core, keys);
  return run<client::RemoveOp, std::vector<RemoveResult>>(*impl_->core, op, keys.size(), options);
}

Result<std::vector<StatResult>> Client::stat(std::span<const std::string_view> keys,
                                             const CallOptions& options) {
  client::StatOp op(*impl_->core, keys);
  return run<client::StatOp, std::vector<StatResult>>(*impl_->core, op, keys.size(), options);
}

Result<std::vector<Code>> Client::pin(std::span<const std::string_view> keys,
                                      std::chrono::milliseconds lease, const CallOptions& options) {
  if (lease.count() < 0) return fail(Code::kInvalidArgument, "pin: the lease is negative");
  client::PinOp op(*impl_->core, keys, static_cast<std::uint64_t>(lease.count()));
  return run<client::PinOp, std::vector<Code>>(*impl_->core, op, keys.size(), options);
}

Result<std::vector<Code>> Client::unpin(std::span<const std::string_view> keys,
                                        const CallOptions& options) {
  client::UnpinOp op(*impl_->core, keys);
  return run<client::UnpinOp, std::vector<Code>>(*impl_->core, op, keys.size(), options);
}

Result<std::vector<Result<Value>>> Client::get(std::span<const std::string_view> keys,
                                               const CallOptions& options) {
  std::vector<Result<Value>> values;
  if (keys.empty()) return values;
  LARDER_TRY(check_batch(keys.size()));
  client::GetOp op(*impl_->core, keys);
  LARDER_TRY(impl_->core->run(op, options));
  values.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    GetResult& result = op.result()[i];
    if (result.code == Code::kOk) {
      values.emplace_back(std::move(op.values()[i]));
    } else {
      values.emplace_back(fail(result.code, std::move(result.message)));
    }
  }
  return values;
}

Result<ListPage> Client::list(std::string_view prefix, std::string_view cursor, std::size_t limit,
                              const CallOptions& options) {
  std::uint64_t from = 0;
  const auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), from);
  if (!cursor.empty() && (error != std::errc{} || end != cursor.data() + cursor.size())) {
    return fail(Code::kInvalidArgument, "list: that cursor did not come from a list call");
  }
  if (limit == 0 || limit > kBatchItemsMax) {
    return fail(Code::kInvalidArgument, "list: the limit must be 1 to 65536");
  }
  client::ListOp op(*impl_->core, prefix, from, static_cast<std::uint32_t>(limit));
  LARDER_TRY(impl_->core->run(op, options));
  return std::move(op.result());
}

Result<NodeInfo> Client::info(const CallOptions& options) {
  client::InfoOp op(*impl_->core);
  LARDER_TRY(impl_->core->run(op, options));
  return std::move(op.info());
}

// ---- devices ----

Result<std::vector<DeviceInfo>> Client::devices(const CallOptions& options) {
  client::DevicesOp op(*impl_->core, nullptr);
  LARDER_TRY(impl_->core->run(op, options));
  return std::move(op.result());
}

Result<DeviceInfo> Client::change_device(const DeviceChange& change, const CallOptions& options) {
  client::DevicesOp op(*impl_->core, &change);
  LARDER_TRY(impl_->core->run(op, options));
  if (change.action != DeviceAction::kRemove) return std::move(op.result().front());
  DeviceInfo removed;
  removed.id = change.device;
  return removed;
}

// ---- single keys ----

Result<PutResult> Client::put(std::string_view key, ConstBytes value, const PutOptions& options) {
  const PutItem item{key, std::span(&value, 1)};
  return only(put(std::span(&item, 1), options));
}

Result<std::uint64_t> Client::get_into(std::string_view key, MutableBytes destination,
                                       const CallOptions& options) {
  const GetItem item{key, std::span(&destination, 1)};
  auto result = only(get_into(std::span(&item, 1), options));
  if (!result) return fail(with_key(result.error(), key));
  return result->size;
}

Result<Value> Client::get(std::string_view key, const CallOptions& options) {
  LARDER_ASSIGN(std::vector<Result<Value>> values, get(std::span(&key, 1), options));
  if (!values.front()) return fail(with_key(values.front().error(), key));
  return std::move(values.front());
}

Result<bool> Client::exists(std::string_view key, const CallOptions& options) {
  LARDER_ASSIGN(const std::vector<bool> present, exists(std::span(&key, 1), options));
  return present.front();
}

Result<void> Client::remove(std::string_view key, const CallOptions& options) {
  auto result = only(remove(std::span(&key, 1), options));
  if (!result) return fail(with_key(result.error(), key));
  return {};
}

Result<ObjectInfo> Client::stat(std::string_view key, const CallOptions& options) {
  auto result = only(stat(std::span(&key, 1), options));
  if (!result) return fail(with_key(result.error(), key));
  return std::move(result->info);
}

Result<void> Client::pin(std::string_view key, std::chrono::milliseconds lease,
                         const CallOptions& options) {
  LARDER_ASSIGN(const std::vector<Code> codes, pin(std::span(&key, 1), lease, options));
  if (codes.front() != Code::kOk) return fail(with_key(Error(codes.front()), key));
  return {};
}

Result<void> Client::unpin(std::string_view key, const CallOptions& options) {
  LARDER_ASSIGN(const std::vector<Code> codes, unpin(std::span(&key, 1), options));
  if (codes.front() != Code::kOk) return fail(with_key(Error(codes.front()), key));
  return {};
}

// ---- asynchronous ----

void Client::put_async(std::span<const PutItem> items, const PutOptions& options,
                       Callback<std::vector<PutResult>> done) {
  start(*impl_->core, std::make_unique<client::PutOp>(*impl_->core, copy_of(items), options.mode),
        items.size(), options, std::move(done));
}

void Client::get_into_async(std::span<const GetItem> items, const CallOptions& options,
                            Callback<std::vector<GetResult>> done) {
  start(*impl_->core, std::make_unique<client::GetOp>(*impl_->core, copy_of(items)), items.size(),
        options, std::move(done));
}

void Client::exists_async(std::span<const std::string_view> keys, const CallOptions& options,
                          Callback<std::vector<bool>> done) {
  start(*impl_->core, std::make_unique<client::ExistsOp>(*impl_->core, keys), keys.size(), options,
        std::move(done));
}

void Client::match_prefix_async(std::span<const std::string_view> keys, const CallOptions& options,
                                Callback<PrefixMatch> done) {
  start(*impl_->core, std::make_unique<client::MatchOp>(*impl_->core, keys), keys.size(), options,
        std::move(done));
}

void Client::remove_async(std::span<const std::string_view> keys, const CallOptions& options,
                          Callback<std::vector<RemoveResult>> done) {
  start(*impl_->core, std::make_unique<client::RemoveOp>(*impl_->core, keys), keys.size(), options,
        std::move(done));
}

void Client::stat_async(std::span<const std::string_view> keys, const CallOptions& options,
                        Callback<std::vector<StatResult>> done) {
  start(*impl_->core, std::make_unique<client::StatOp>(*impl_->core, keys), keys.size(), options,
        std::move(done));
}

std::future<Result<std::vector<PutResult>>> Client::put_future(std::span<const PutItem> items,
                                                               const PutOptions& options) {
  auto [future, done] = promise_of<std::vector<PutResult>>();
  put_async(items, options, std::move(done));
  return std::move(future);
}

std::future<Result<std::vector<GetResult>>> Client::get_into_future(std::span<const GetItem> items,
                                                                    const CallOptions& options) {
  auto [future, done] = promise_of<std::vector<GetResult>>();
  get_into_async(items, options, std::move(done));
  return std::move(future);
}

// ---- memory ----

struct PinnedView::Impl {
  std::shared_ptr<ClientCore> core;
  std::shared_ptr<client::Attachment> attachment;
  std::shared_ptr<client::Lane> lane;
  client::Route route;
  std::string key;

  ~Impl() {
    if (!valid()) return;
    client::UnpinOp op(*core, key);
    static_cast<void>(core->run(op, {}).has_value());  // a pin that stays ends with the connection
  }
  // The pin lives as long as its connection, and the node may have closed that one already.
  bool valid() const noexcept { return attachment->current() && !lane->channel->peer_closed(); }
};

PinnedView::PinnedView(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PinnedView::PinnedView(PinnedView&&) noexcept = default;
PinnedView& PinnedView::operator=(PinnedView&&) noexcept = default;
PinnedView::~PinnedView() = default;
bool PinnedView::valid() const noexcept {
  return impl_ && impl_->valid();
}
ConstBytes PinnedView::bytes() const noexcept {
  if (!impl_) return {};
  return {impl_->attachment->data(impl_->route), static_cast<std::size_t>(impl_->route.length)};
}

Result<PinnedView> Client::view(std::string_view key, const CallOptions& options) {
  ClientCore& core = *impl_->core;
  auto attachment = core.attachment(core.deadline_of(options));
  if (!attachment) {
    if (core.path() == Path::kSharedMemory) {
      return fail(Code::kUnavailable, "view: the node's memory is not mapped right now; try again");
    }
    return fail(Code::kUnsupported, "view: the node's memory is not mapped here (path " +
                                        std::string(path_name(core.path())) +
                                        "); use get or get_into");
  }
  client::PinOp op(core, std::span(&key, 1), 0);
  LARDER_TRY(core.run(op, options));
  if (op.result().front() != Code::kOk) return fail(with_key(Error(op.result().front()), key));
  LARDER_ASSIGN(auto lane, core.pin_lane(core.deadline_of(options)));
  // From here on it has a pin to give back.
  auto view = std::make_unique<PinnedView::Impl>();
  view->core = impl_->core;
  view->attachment = std::move(attachment);
  view->lane = std::move(lane);
  view->key = std::string(key);
  view->route = op.routes().front();
  if (!view->attachment->plausible(view->route) || !view->valid()) {
    return fail(Code::kUnavailable, "view: the node was restarted meanwhile; try again");
  }
  return PinnedView(std::move(view));
}

struct SharedBuffer::Impl {
  std::shared_ptr<ClientCore> core;
  std::shared_ptr<client::Window> window;  // null: plain memory, on paths that share nothing
  std::vector<std::byte> plain;
  std::uint64_t bytes = 0;
};

SharedBuffer::SharedBuffer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SharedBuffer::SharedBuffer(SharedBuffer&&) noexcept = default;
SharedBuffer& SharedBuffer::operator=(SharedBuffer&&) noexcept = default;
SharedBuffer::~SharedBuffer() = default;
MutableBytes SharedBuffer::bytes() const noexcept {
  if (!impl_) return {};
  if (!impl_->window) return impl_->plain;
  return {impl_->window->data(), static_cast<std::size_t>(impl_->bytes)};
}

Result<SharedBuffer> Client::alloc_buffer(std::uint64_t bytes) {
  auto buffer = std::make_unique<SharedBuffer::Impl>();
  buffer->core = impl_->core;
  buffer->bytes = bytes;
  if (path() != Path::kSharedMemory) {
    if (bytes == 0 || bytes > wire::kWindowBytesMax) {
      return fail(Code::kInvalidArgument, "alloc_buffer: 1 byte to 64 GiB");
    }
    buffer->plain.resize(bytes);
    return SharedBuffer(std::move(buffer));
  }
  LARDER_ASSIGN(std::unique_ptr<client::Window> window,
                client::Window::create(impl_->core->pool().options(), bytes));
  buffer->window = std::move(window);
  impl_->core->add_shared_buffer(buffer->window);
  return SharedBuffer(std::move(buffer));
}

Result<void> Client::register_buffer(MutableBytes range) {
  return impl_->core->register_buffer(range);
}

Result<void> Client::unregister_buffer(MutableBytes range) {
  return impl_->core->unregister_buffer(range);
}

}  // namespace larder
