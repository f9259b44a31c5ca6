struct gm_model;
struct gm_log;
struct gm_error;
struct gm_error *gm_model_create(const struct gm_log *log, struct gm_model **ret_model);
void gm_model_destroy(struct gm_model *model);
