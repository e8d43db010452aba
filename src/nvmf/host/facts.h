// SPDX-License-Identifier: Apache-2.0
// What a controller says of itself and of one namespace, and what that is for a block device.
#pragma once

#include <optional>
#include <string>

#include "block/block_types.h"
#include "nvmf/host/admin.h"
#include "nvmf/host/options.h"

namespace larder::nvmf {

struct NamespaceFacts {
  std::uint32_t nsid = 0;
  IdentifyNamespace raw;
  NamespaceShape shape;
  NamespaceIds ids;
};

struct ControllerFacts {
  Cap cap;
  IdentifyController raw;
  ControllerLimits limits;
};

// A controller that is connected, enabled and known.
struct Attachment {
  std::unique_ptr<Admin> admin;
  PairOptions pair;  // of its admin queue
  ControllerFacts controller;
};

// Connects the admin queue of `subnqn`, enables the controller and asks what it is. Errors as
// QueuePair::connect() and Admin.
Result<Attachment> attach(const NvmeUrl& url, const std::string& subnqn, const HostIdentity& host,
                          env::Nanos keep_alive, env::Nanos deadline);

// The one that `wanted` names, else the only active one, else 1. kNotFound: it is not active, and
// which are. kUnsupported: a block device cannot be made of it.
Result<NamespaceFacts> find_namespace(Admin& admin, std::optional<std::uint32_t> wanted,
                                      env::Nanos deadline);

// Sizes that a target says and no device has are kUnsupported.
Result<block::Geometry> geometry_of(const ControllerFacts& controller, const NamespaceFacts& facts);
// The id is the namespace's UUID, else its NGUID, else its EUI-64, in this order: each is the same
// for the same namespace on every path, the first is the one that administrators set. Without any,
// it is made of the subsystem's NQN, its serial number and the namespace's number.
block::Identity identity_of(const NvmeUrl& url, const ControllerFacts& controller,
                            const NamespaceFacts& facts);

// Bytes of one read or write at most: MDTS, the width of the command's field, and `limit`.
std::uint32_t command_bytes_max(const ControllerFacts& controller, const NamespaceFacts& facts,
                                std::uint32_t limit);

// Bytes of one Write Zeroes at most: the width of the command's field, and MDTS. That is not of
// commands without data, but there are controllers that do not do more at a time.
std::uint64_t zeroes_bytes_max(const ControllerFacts& controller, const NamespaceFacts& facts);

// How a namespace is no more what it was, in words; empty: it is. One that has grown is.
std::string what_changed(const block::Geometry& before, const block::Identity& known,
                         const block::Geometry& now, const block::Identity& found);

}  // namespace larder::nvmf
