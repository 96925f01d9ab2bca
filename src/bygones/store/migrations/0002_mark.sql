-- The application id "Rcll" distinguishes archives from SQLite files of other programs.

PRAGMA application_id = 1382247532;
