/* metrics in the text formats of Prometheus and OpenMetrics. docs/metrics.md lists them. */
#ifndef GM_RENDER_METRICS_H
#define GM_RENDER_METRICS_H

#include <stdio.h>

#include "ask/metrics.h"

/* open_metrics: OpenMetrics 1.0, else Prometheus's format 0.0.4. */
void gm_render_metrics(const struct gm_metrics *metrics, int pid, bool open_metrics, FILE *out);

#endif
