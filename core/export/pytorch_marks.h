/* Ranges that the program named, as a snapshot of PyTorch's has them. Internal to core/export. */
#ifndef GM_EXPORT_PYTORCH_MARKS_H
#define GM_EXPORT_PYTORCH_MARKS_H

#include "export/pickle.h"
#include "log/log.h"

/* The list external_annotations: where each range begins and ends, by the times of the events
 * there. False: no memory. */
bool gm_pytorch_put_annotations(struct gm_pickler *pickler, const struct gm_log *log);

#endif
