-- Other programs keep SQLite files as well: the number "Rcll" says that this one is ours.

PRAGMA application_id = 1382247532;
