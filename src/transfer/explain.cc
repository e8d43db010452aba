// SPDX-License-Identifier: Apache-2.0
#include "transfer/explain.h"

#include <nlohmann/json.hpp>

#include "qos/charge.h"

namespace larder::transfer {
namespace {

using Json = nlohmann::ordered_json;

Json charges_of(const TaskRecord& record, MemoryType local, const Rule& rule) {
  qos::Movement movement;
  movement.local = local;
  movement.outbound = record.opcode == Opcode::kWrite;
  movement.staged = record.staged;
  movement.far_side = rule.segment_type == SegmentType::kFile ? qos::FarSide::kFile
                      : record.remote_host                    ? qos::FarSide::kPeerMemory
                                                              : qos::FarSide::kHostMemory;
  Json stages = Json::array();
  const auto plan = qos::plan_of(movement);
  if (!plan) return stages;
  for (std::size_t i = 0; i < plan->stages().size(); ++i) {
    Json charges = Json::object();
    plan->charges(i, record.length).for_each([&](Resource resource, std::uint64_t bytes) {
      charges[std::string(resource_name(resource))] = bytes;
    });
    stages.push_back({{"stage", std::string(qos::stage_name(plan->stages()[i]))},
                      {"charges", std::move(charges)}});
  }
  return stages;
}

}  // namespace

std::string explain_task(const Task& task, const Selector& selector) {
  const TaskRecord& record = task.record;
  const TaskStatus status = task.status();
  const Rule& rule = selector.policy().rules()[record.rule];
  const std::int64_t started = record.started.load(std::memory_order_relaxed);
  const std::int64_t ended = record.ended.load(std::memory_order_relaxed);
  Json out;
  out["outcome"] = std::string(outcome_name(status.outcome));
  out["quiescent"] = status.quiescent;
  if (!status.message.empty()) out["error"] = status.message;
  out["direction"] = record.opcode == Opcode::kRead ? "read" : "write";
  out["bytes"] = record.length;
  out["bytes_done"] = status.bytes;
  out["rule"] = selector.policy().label(record.rule);
  out["transport"] = std::string(transport_name(status.transport));
  out["candidates"] = Json::array();
  for (const TransportType type : rule.transports) {
    out["candidates"].push_back({{"transport", std::string(transport_name(type))},
                                 {"installed", selector.abilities(type) != nullptr}});
  }
  out["staged"] = record.staged;
  out["intent"] = std::string(intent_name(record.intent));
  out["class"] = std::string(class_name(record.traffic_class));
  out["trace_id"] = record.trace_id;
  out["stages"] = charges_of(record, record.local_memory, rule);
  out["pieces"] = record.pieces.load(std::memory_order_relaxed);
  out["merged_requests"] = record.merged.load(std::memory_order_relaxed);
  out["attempts"] = record.attempts.load(std::memory_order_relaxed);
  if (started != 0) out["wait_ns"] = started - record.submitted;
  if (ended != 0) out["total_ns"] = ended - record.submitted;
  return out.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace larder::transfer
