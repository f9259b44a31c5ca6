/* JSON into the machine: json.c. Internal to core/import. */
#ifndef GM_IMPORT_JSON_H
#define GM_IMPORT_JSON_H

#include "import/pickle.h"

/* Reads a file of which no byte has been taken yet. */
struct gm_error *gm_json_read(struct gm_pickle *pickle);

#endif
