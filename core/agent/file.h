/* Names this process's recording, and creates the file. */
#ifndef GM_AGENT_FILE_H
#define GM_AGENT_FILE_H

/*
 * As the settings `out` and `spool` say. No existing file is written to or replaced, except the one
 * that the setting `old` names: a further process, or another rank that got the same name, gets
 * another. NULL, or why not: a static text; gm_agent_process.path is the last name that was tried.
 */
const char *gm_agent_file_open(void);

#endif
