// SPDX-License-Identifier: Apache-2.0
// Compiled as C11: the header is C, and a C program can use what it says. Called by c_api_test.cc.
#include <stddef.h>
#include <string.h>

#include "larder/transfer_c.h"

// The layouts that c_api_numbers.cc asserts, seen from C.
_Static_assert(sizeof(larder_transfer_range) == 32, "range");
_Static_assert(sizeof(larder_transfer_request) == 72, "request");
_Static_assert(sizeof(larder_transfer_result) == 16, "result");
_Static_assert(sizeof(larder_transfer_task) == 24, "task");
_Static_assert(sizeof(larder_transfer_batch) == 40, "batch");
_Static_assert(sizeof(larder_transfer_segment) == 24, "segment");
_Static_assert(sizeof(larder_transfer_buffer) == 32, "buffer");
_Static_assert(sizeof(larder_transfer_notification) == 48, "notification");
_Static_assert(sizeof(larder_transfer_received) == 272, "received");
_Static_assert(offsetof(larder_transfer_request, local) == 8, "local");
_Static_assert(offsetof(larder_transfer_request, policy) == 56, "policy");

int larder_transfer_c_round_trip(void);

// Copies within the process and looks at how it went. 0, or the line that went wrong.
int larder_transfer_c_round_trip(void) {
  larder_transfer_engine* engine = NULL;
  if (larder_transfer_create_from_text("transports: [memcpy]", &engine) != LARDER_OK) {
    return __LINE__;
  }
  void* memory = NULL;
  if (larder_transfer_allocate_memory(engine, 8192, NULL, &memory) != LARDER_OK) return __LINE__;
  memset(memory, 'x', 4096);
  char* const there = (char*)memory + 4096;
  uint64_t batch = 0;
  if (larder_transfer_allocate_batch(engine, 1, &batch) != LARDER_OK) return __LINE__;
  const larder_transfer_request request = {.struct_size = sizeof(request),
                                           .opcode = LARDER_OPCODE_WRITE,
                                           .intent = LARDER_INTENT_CHECKPOINT,
                                           .local = memory,
                                           .target = LARDER_LOCAL_SEGMENT,
                                           .target_offset = (uint64_t)(uintptr_t)there,
                                           .length = 4096};
  larder_transfer_result result = {.struct_size = sizeof(result)};
  if (larder_transfer_submit(engine, batch, &request, 1, &result, NULL) != LARDER_OK) {
    return __LINE__;
  }
  if (result.code != LARDER_OK) return __LINE__;
  larder_transfer_batch status = {.struct_size = sizeof(status)};
  if (larder_transfer_wait(engine, batch, INT64_C(30000000000), &status) != LARDER_OK) {
    return __LINE__;
  }
  if (!status.all_completed || there[4095] != 'x') return __LINE__;
  if (larder_transfer_last_error()[0] != '\0') return __LINE__;
  larder_transfer_destroy(engine);
  return 0;
}
